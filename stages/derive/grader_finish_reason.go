package derive

import (
	"slices"
	"strings"
)

// finish_reason: the server ended the first choice for one of these reasons.
var finishReasonGrader = graderType{name: "finish_reason", subject: theAnswer, keys: map[string]any{"in": nil}, build: buildFinishReason}

type finishReason struct{ in []string }

func buildFinishReason(s GraderSpec, _ *builder) (grader, error) {
	if len(s.In) == 0 {
		return nil, &keyError{"in", "is required", "in: [stop]"}
	}
	return &finishReason{s.In}, nil
}

func (g *finishReason) judge(a *answer) judgement {
	reasons := a.attempt.FinishReasons
	if len(reasons) == 0 {
		return unscorable("the answer has no finish reason")
	}
	j := passWhen(slices.Contains(g.in, reasons[0]), "finish reason "+quoted(reasons[0])+", want "+strings.Join(mapOf(g.in, quoted), " or "))
	j.extracted = &reasons[0]
	return j
}
