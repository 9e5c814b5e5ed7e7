package record

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"anvil/stages/internal/jsontree"
)

const line = `{"index":0,"client":"c0","item":"case-03","session":null,"turn":0,"prompt_sha256":"` + sum + `","request_sha256":"` + sum + `",` +
	`"planned_input_tokens":4096,"max_output_tokens":10240,"t":{"due":0,"start":41000,"connected":null,"sent":121000,"written":130000,"headers":9000000,` +
	`"first_byte":9000000,"first_output":9800000,"first_content":15000000,"last_output":88000000,"end":88100000},"arrivals":[9800000,5200000,-3],` +
	`"arrival_kinds":"rcc","coalesced":"000","seen_empty":[null,7,null],"client_delay":[3000,2000,900],"outcome":"ok","notes":["a\u00e9"],` +
	`"error":{"class":"x","message":"y","retry_after_s":1.5},"http_status":200,"finish_reasons":["stop"],"done_marker":true,"model":"glm",` +
	`"usage":{"input":4070,"output":231,"reasoning":80,"cached":0,"source":"final","reason":null},"engine_tokens":null,"text":"é\n\ud83d\ude00",` +
	`"reasoning":"","tool_calls":[{"index":0,"id":"i","name":"n","arguments":"{}"}],"text_sha256":"` + sum + `","text_truncated":false,"choices":1,` +
	`"canary":null,"controlled_output":null,"tries":[],"added_later":{"x":[1]}}`

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// The quick way and the library read the same of every line that is JSON with
// every key once; of another neither reads anything.
func FuzzDecodeAttempt(f *testing.F) {
	f.Add(line)
	for _, change := range [][2]string{
		{`"index":0`, `"index":0.0`},
		{`"index":0`, `"index":"0"`},
		{`"index":0`, `"index":99999999999999999999`},
		{`"item":"case-03"`, `"item":5`},
		{`"prompt_sha256":"0`, `"prompt_sha256":"X`},
		{`"arrivals":[9800000`, `"arrivals":[1e3`},
		{`"t":{`, `"t":null,"u":{`},
		{`"notes":["a\u00e9"]`, `"notes":null`},
		{`"seen_empty":[null`, `"seen_empty":["x"`},
		{`"error":{`, `"error":[],"e":{`},
		{`"outcome":"ok"`, `"outcome":null`},
		{`"done_marker":true`, `"done_marker":1`},
		{`"client":"c0"`, `"client":"c0","client":"c1"`},
		{`"usage":{`, `"usage":[],"v":{`},
		{`"text":"é`, `"text":"` + "\xff"},
		{`"max_output_tokens":10240,`, ``},
		{`"turn":0`, `"turn":null`},
	} {
		f.Add(strings.Replace(line, change[0], change[1], 1))
	}
	f.Add("{}")
	f.Add("[]")
	f.Add("null")
	f.Fuzz(func(t *testing.T, line string) {
		var want Attempt
		var doc jsontree.Doc
		wantErr := doc.Parse([]byte(line))
		if wantErr == nil {
			wantErr = decodeStrict([]byte(line), &want)
		}
		got, err := decodeAttempt(&doc, []byte(line))
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, the library says %v", err, wantErr)
		}
		if err == nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("differs from the library (-want +got):\n%s", diff)
			}
		}
	})
}

func TestQuickWayTakesOurOwnLines(t *testing.T) {
	var doc jsontree.Doc
	if err := doc.Parse([]byte(line)); err != nil {
		t.Fatal(err)
	}
	d := quick{ok: true}
	var a Attempt
	if d.attempt(doc.Root(), &a); !d.ok {
		t.Error("a line as anvil writes it takes the slow way")
	}
}

func BenchmarkDecodeAttempt(b *testing.B) {
	long := strings.Replace(line, `[9800000,5200000,-3]`, "[9800000"+strings.Repeat(",20000000", 99)+"]", 1)
	b.Run("quick", func(b *testing.B) {
		b.SetBytes(int64(len(long)))
		b.ReportAllocs()
		var doc jsontree.Doc
		for range b.N {
			if _, err := decodeAttempt(&doc, []byte(long)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.SetBytes(int64(len(long)))
		b.ReportAllocs()
		for range b.N {
			var a Attempt
			if err := decodeStrict([]byte(long), &a); err != nil {
				b.Fatal(err)
			}
		}
	})
}
