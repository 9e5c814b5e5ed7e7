package prov

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"anvil/pipeline/digest"
	"anvil/pipeline/stage"
	"anvil/schemas"
)

// The types of an in-toto Statement v1 with SLSA provenance v1.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	BuilderID     = "urn:anvil:builder:local"

	// StageStatementSchema and RunStatementSchema are the shapes of ours.
	StageStatementSchema schemas.ID = "anvil.stage-statement/v1"
	RunStatementSchema   schemas.ID = "anvil.run-statement/v1"
)

// RunBuildType is the buildType of a run; that of a stage is
// urn:anvil:kind:<kind>:<contract>.
const RunBuildType = "urn:anvil:run:1"

// The names of in-toto and SLSA are theirs, hence nolint.

// A Statement is an in-toto Statement v1.
type Statement struct {
	Type          string     `json:"_type"` //nolint:tagliatelle
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"` //nolint:tagliatelle
	Predicate     Predicate  `json:"predicate"`
}

// A Resource is an in-toto ResourceDescriptor.
type Resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	MediaType   string            `json:"mediaType,omitempty"` //nolint:tagliatelle
	Annotations map[string]any    `json:"annotations,omitempty"`
}

// A Predicate is a SLSA provenance v1.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"` //nolint:tagliatelle
	RunDetails      RunDetails      `json:"runDetails"`      //nolint:tagliatelle
}

// A BuildDefinition says what went in.
type BuildDefinition struct {
	BuildType            string          `json:"buildType"`            //nolint:tagliatelle
	ExternalParameters   json.RawMessage `json:"externalParameters"`   //nolint:tagliatelle
	InternalParameters   json.RawMessage `json:"internalParameters"`   //nolint:tagliatelle
	ResolvedDependencies []Resource      `json:"resolvedDependencies"` //nolint:tagliatelle
}

// RunDetails say who did it and when.
type RunDetails struct {
	Builder    Builder    `json:"builder"`
	Metadata   Metadata   `json:"metadata"`
	Byproducts []Resource `json:"byproducts,omitempty"`
}

// A Builder is the program.
type Builder struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version"`
}

// Metadata identify the execution.
type Metadata struct {
	InvocationID string     `json:"invocationId"` //nolint:tagliatelle
	StartedOn    stage.Time `json:"startedOn"`    //nolint:tagliatelle
	FinishedOn   stage.Time `json:"finishedOn"`   //nolint:tagliatelle
}

// Encode writes the statement: the same statement gives the same bytes.
func (s Statement) Encode() ([]byte, error) { return encode(s) }

// StageStatement is the statement of one stage attempt, a function of its
// result.json and of the tool that made it. Subjects are the outputs, or the
// result itself where there are none; resolved dependencies are the inputs.
func StageStatement(resultBytes []byte, tool stage.Tool) (Statement, error) {
	res, err := DecodeResult(resultBytes)
	if err != nil {
		return Statement{}, err
	}
	external, err := json.Marshal(struct {
		Config json.RawMessage `json:"config"`
	}{res.Config})
	if err != nil {
		return Statement{}, err
	}
	internal, err := json.Marshal(struct {
		Tool    stage.Tool    `json:"tool"`
		Key     digest.Digest `json:"key"`
		Salt    string        `json:"salt"`
		Class   stage.Class   `json:"class"`
		Attempt int           `json:"attempt"`
		Status  Status        `json:"status"`
	}{tool, res.Key, res.Salt, res.Class, res.Attempt, res.Status})
	if err != nil {
		return Statement{}, err
	}
	s := Statement{
		Type: StatementType, PredicateType: PredicateType, Subject: []Resource{},
		Predicate: Predicate{
			BuildDefinition: BuildDefinition{
				BuildType:            fmt.Sprintf("urn:anvil:kind:%s:%d", res.Kind, res.Contract),
				ExternalParameters:   external,
				InternalParameters:   internal,
				ResolvedDependencies: []Resource{},
			},
			RunDetails: RunDetails{
				Builder:    builder(tool),
				Metadata:   Metadata{fmt.Sprintf("%s/%s/%d", res.Run, res.Stage, res.Attempt), res.StartedAt, res.FinishedAt},
				Byproducts: []Resource{{Name: "result.json", Digest: sha256Of(digest.FromBytes(resultBytes))}},
			},
		},
	}
	for _, o := range res.Outputs {
		s.Subject = append(s.Subject, resource(o.Name, o.MediaType, o.Ref, nil))
	}
	if len(s.Subject) == 0 {
		// A statement must be about something: a failed attempt made its result.
		_, set := res.Limitations.Canonical()
		s.Subject = append(s.Subject, resource(ResultName, "application/json", stage.Ref{
			Schema: ResultSchema, SHA256: digest.FromBytes(resultBytes), Size: int64(len(resultBytes)), Limitations: set,
		}, nil))
	}
	for _, in := range res.Inputs {
		s.Predicate.BuildDefinition.ResolvedDependencies = append(s.Predicate.BuildDefinition.ResolvedDependencies, dependency(in))
	}
	return s, nil
}

func builder(tool stage.Tool) Builder {
	return Builder{ID: BuilderID, Version: map[string]string{"anvil": tool.Version}}
}

func sha256Of(d digest.Digest) map[string]string { return map[string]string{"sha256": d.String()} }

func resource(name, mediaType string, ref stage.Ref, more map[string]any) Resource {
	a := map[string]any{"schema": string(ref.Schema), "size": ref.Size, "limitations": ref.Limitations.String()}
	maps.Copy(a, more)
	return Resource{Name: name, MediaType: mediaType, Digest: sha256Of(ref.SHA256), Annotations: a}
}

func dependency(in Input) Resource {
	more := map[string]any{"port": in.Port}
	if in.From != nil {
		more["run"], more["stage"], more["result"] = in.From.Run, in.From.Stage, in.From.Result.String()
	}
	if in.Whole != nil {
		more["whole_sha256"], more["whole_size"] = in.Whole.SHA256.String(), in.Whole.Size
	}
	return resource(in.Name, "", in.Ref, more)
}

// RunStatement is the statement of a run, a function of its run.json: the
// subjects are run.json and every artifact that the results named there
// publish, each with the limitation set that it has in this run.
func RunStatement(ctx context.Context, manifest []byte, r *Reader) (Statement, error) {
	m, err := DecodeManifest(manifest)
	if err != nil {
		return Statement{}, err
	}
	external, err := json.Marshal(struct {
		Plan ManifestPlan `json:"plan"`
		Base *string      `json:"base"`
	}{m.Plan, m.Base})
	if err != nil {
		return Statement{}, err
	}
	internal, err := json.Marshal(struct {
		Tool   stage.Tool `json:"tool"`
		Status Status     `json:"status"`
		Exit   int        `json:"exit"`
	}{m.Tool, m.Status, m.Exit})
	if err != nil {
		return Statement{}, err
	}
	s := Statement{
		Type: StatementType, PredicateType: PredicateType,
		Subject: []Resource{{
			Name: ManifestName, MediaType: "application/json", Digest: sha256Of(digest.FromBytes(manifest)),
			Annotations: map[string]any{"schema": string(ManifestSchema), "size": len(manifest), "limitations": m.Limitations.SHA256.String()},
		}},
		Predicate: Predicate{
			BuildDefinition: BuildDefinition{
				BuildType: RunBuildType, ExternalParameters: external, InternalParameters: internal,
				ResolvedDependencies: []Resource{
					{Name: PlanName, Digest: sha256Of(m.Plan.SHA256)},
					{Name: ResolvedPlanName, Digest: sha256Of(m.Plan.ResolvedSHA256)},
				},
			},
			RunDetails: RunDetails{Builder: builder(m.Tool), Metadata: Metadata{m.Run, m.StartedAt, m.FinishedAt}},
		},
	}
	for _, st := range m.Stages {
		arts, err := Published(ctx, r, st)
		if err != nil {
			return Statement{}, err
		}
		for _, o := range arts {
			s.Subject = append(s.Subject, resource("artifacts/"+st.ID+"/"+o.Name, o.MediaType, o.Ref, map[string]any{"stage": st.ID}))
		}
	}
	return s, nil
}

// Published returns the artifacts of one stage of a run, each with the digest
// of the limitation set that it has in this run: that of the result, and what
// the executor added when it took the result over.
func Published(ctx context.Context, r *Reader, st ManifestStage) ([]Output, error) {
	if st.ResultSHA256 == nil {
		return nil, nil
	}
	res, err := r.Result(ctx, *st.ResultSHA256)
	if err != nil {
		return nil, err
	}
	if st.Added == nil {
		return res.Outputs, nil
	}
	added, err := r.Set(ctx, *st.Added)
	if err != nil {
		return nil, err
	}
	out := make([]Output, len(res.Outputs))
	for i, o := range res.Outputs {
		set, err := r.Set(ctx, o.Limitations)
		if err != nil {
			return nil, err
		}
		out[i] = o
		_, out[i].Limitations = set.Union(added).Canonical()
	}
	return out, nil
}
