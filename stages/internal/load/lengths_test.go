package load

import (
	"testing"
	"testing/synctest"
	"time"
)

// RFC 9112 6.3: where a transfer coding stands beside a length, in whichever
// order, the coding says where the body ends. A length that won would cut the
// answer short, or wait for bytes that never come.
func TestATransferCodingOverridesALength(t *testing.T) {
	const text = "data: a\ndata: b\n"
	for name, head := range map[string]string{
		"a length that is short, first":  "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"a length that is short, second": "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"a length that is long":          "Content-Length: 500\r\nTransfer-Encoding: chunked\r\n",
		"a length of nothing":            "content-length: 0\r\ntransfer-encoding: Chunked\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(int, int) []piece {
					return []piece{{ms2(10), "HTTP/1.1 200 OK\r\n" + head + "\r\n" + chunks("data: a\nda", "ta: b\n") + lastChunk}}
				})
				c, capture := newTestClient(t, s.dial, Limits{Total: time.Second})
				w := c.NewWorker(capture, &lineWatcher{})
				c.Begin()
				for request := range 2 { // the second on the same connection: the first was read to its end
					sample := NewSample(0)
					f := w.Do(t.Context(), Job{Request: request}, &sample)
					if sample.Ending != EndBody || f != (Fault{}) || sample.Bytes != int64(len(text)) || sample.Reused != (request > 0) {
						t.Errorf("request %d: %+v, fault %+v", request, sample, f)
					}
				}
				w.Close()
				if err := capture.Close(); err != nil {
					t.Fatal(err)
				}
				for request := range 2 {
					if got := replay(t, capture, request); got.body != text {
						t.Errorf("request %d: body %q, want %q", request, got.body, text)
					}
				}
			})
		})
	}
}
