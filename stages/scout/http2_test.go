package scout

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"anvil/stages/internal/kindtest"
	"anvil/stages/record"
)

// An endpoint that speaks HTTP/2 alone, without TLS, is asked about itself as it
// is measured.
func TestAnEndpointOfHTTP2AloneIsScouted(t *testing.T) {
	f := &fake{chat: stream(hello, finish, "[DONE]"), models: say(200, `{"data":[{"id":"m"}]}`), version: say(200, `{"version":"1.2"}`)}
	s := httptest.NewUnstartedServer(f.mux())
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	endpoint := at(s.URL + "/v1")
	endpoint["http2"] = true
	doc, _, err := run(t, kindtest.New(t, Kind, endpoint, map[string]any{"requests": 2, "canary": "off", "ready": map[string]any{"timeout": "20s"}}))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Outcomes[record.OutcomeOK] != 2 || doc.Engine.Version == nil || doc.Facts.ModelListed == nil || !*doc.Facts.ModelListed {
		t.Errorf("outcomes %v, engine %+v, facts %+v", doc.Outcomes, doc.Engine, doc.Facts)
	}
}
