package engine

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"anvil/stages/internal/engine/jsonview"
)

// isError tells whether a member named error says that something went wrong:
// every type counts, but null, false and the empty string say that nothing did.
func isError(v value) bool {
	switch v.Kind() {
	case jsonview.Absent, jsonview.Null:
		return false
	case jsonview.Bool:
		return v.True()
	case jsonview.String:
		return v.Filled()
	default:
		return true
	}
}

// failWith keeps an error value: an object, a string or anything else.
func (r *reading) failWith(v value) {
	if r.live {
		return
	}
	class, message := describe(v)
	r.fail(class, message)
}

// describe finds class and message in an error of any of the shapes that engines
// use.
func describe(v value) (class, message string) {
	switch v.Kind() {
	case jsonview.String:
		return "error", v.Text()
	case jsonview.Object:
	default:
		return "error", string(v.Raw())
	}
	class = "error"
	for _, key := range []string{"type", "code", "error_type", "status"} {
		if w := v.Get(key); w.Filled() {
			class = w.Text()
			break
		} else if w.Kind() == jsonview.Number {
			class = string(w.Raw())
			break
		}
	}
	for _, key := range []string{"message", "detail", "msg", "error"} {
		if w := v.Get(key); w.Filled() {
			return class, w.Text()
		}
	}
	return class, string(v.Raw())
}

// errorText is the message of an HTTP error's body, whatever shape it has.
func errorText(body []byte) string {
	v, ok := jsonview.Parse(body)
	if !ok {
		return strings.TrimSpace(string(body))
	}
	if inner := v.Get("error"); isError(inner) && inner.Kind() != jsonview.Bool {
		v = inner
	}
	_, message := describe(v)
	return message
}

// httpFault is what an answer outside 2xx says. A redirect is not followed; only
// its target's origin is told, since its path and query may hold secrets.
func httpFault(h Head, body []byte) *fault {
	class := "http_" + strconv.Itoa(h.Status)
	if h.Status >= 300 && h.Status < 400 {
		if at := origin(h.Header.Get("Location")); at != "" {
			return newFault(class, "redirected to "+at+"; redirects are not followed")
		}
	}
	message := errorText(body)
	if message == "" {
		message = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", h.Status, http.StatusText(h.Status)))
	}
	return newFault(class, message)
}

func origin(location string) string {
	if location == "" {
		return ""
	}
	u, err := url.Parse(location)
	if err != nil {
		return "an unreadable address"
	}
	if u.Host == "" {
		return "the same origin"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// retryAfter reads the header of that name: seconds, or a date, which counts from
// the answer's own date, since the two clocks need not agree.
func retryAfter(h http.Header) *float64 {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if s == "" {
		return nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if f >= 0 && f < 1e9 {
			return &f
		}
		return nil
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return nil
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return nil
	}
	f := max(at.Sub(from), time.Duration(0)).Seconds()
	return &f
}
