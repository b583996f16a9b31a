package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

var update = flag.Bool("update", false, "write the answers of the examples into testdata/api and docs/api")

const (
	exampleFiles = "../../testdata/api/*.json"
	exampleGuide = "../../docs/api/*.md"
)

// example is one file of testdata/api. The files are played in order, on one
// server: an answer shows what the requests before it have left.
type example struct {
	Title string `json:"title"`
	// Guide is the fields of the answer that a page of docs/api shows, as paths such as
	// data.id; "*" is all of them. The guide lacks an example without any.
	Guide   []string       `json:"guide,omitempty"`
	Before  []exampleEvent `json:"before,omitempty"`
	Request exampleRequest `json:"request"`
	Answer  exampleAnswer  `json:"answer"`
}

// exampleEvent is something that happens beside the API: time passes, whatever
// is due is claimed, or is claimed and its attempt ends.
type exampleEvent struct {
	Wait    string          `json:"wait,omitempty"`
	Claim   bool            `json:"claim,omitempty"`
	Attempt *exampleAttempt `json:"attempt,omitempty"`
}

type exampleAttempt struct {
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	Body   string `json:"body,omitempty"`
	Type   string `json:"content_type,omitempty"`
	Gone   bool   `json:"gone,omitempty"` // no retry follows

	DNS       int64 `json:"dns_ms,omitempty"`
	Connect   int64 `json:"connect_ms,omitempty"`
	TLS       int64 `json:"tls_ms,omitempty"`
	FirstByte int64 `json:"first_byte_ms,omitempty"`
	Reused    bool  `json:"connection_reused,omitempty"`
}

func (e *exampleAttempt) attempt() job.Attempt {
	var headers []job.Header
	if e.Type != "" {
		headers = []job.Header{{Name: "Content-Type", Value: e.Type}}
	}
	return job.Attempt{
		Status: e.Status, Error: e.Error, ResponseBody: e.Body, ResponseHeaders: headers,
		Timings: job.Timings{
			DNS:       time.Duration(e.DNS) * time.Millisecond,
			Connect:   time.Duration(e.Connect) * time.Millisecond,
			TLS:       time.Duration(e.TLS) * time.Millisecond,
			FirstByte: time.Duration(e.FirstByte) * time.Millisecond,
			Reused:    e.Reused,
		},
	}
}

type exampleRequest struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

type exampleAnswer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// The headers of answers that examples show.
var shownHeaders = []string{"Content-Type", "Location"}

func (e *exampleEvent) happen(a *api) {
	a.t.Helper()
	switch {
	case e.Wait != "":
		d, err := job.ParseDuration(e.Wait)
		if err != nil {
			a.t.Fatal(err)
		}
		a.clock.Advance(d)
	case e.Claim:
		if len(a.claim()) == 0 {
			a.t.Fatal("no job is due")
		}
	case e.Attempt != nil:
		kind := job.OutcomeFailed
		if e.Attempt.Gone {
			kind = job.OutcomeRefused
		}
		for _, c := range a.claimOf("payment-notify") {
			a.settle(c, kind, e.Attempt.attempt())
		}
	}
}

// claimOf claims what is due, and gives the claims of one topic; the other leases expire.
func (a *api) claimOf(topic string) []store.Claimed {
	a.t.Helper()
	var claims []store.Claimed
	for _, c := range a.claim() {
		if c.Job.Topic == topic {
			claims = append(claims, c)
		}
	}
	if len(claims) == 0 {
		a.t.Fatalf("no job of %s is due", topic)
	}
	return claims
}

func (e *example) play(a *api) exampleAnswer {
	a.t.Helper()
	for _, event := range e.Before {
		event.happen(a)
	}
	var headers []string
	for name, value := range e.Request.Headers {
		headers = append(headers, name, value)
	}
	got := a.call(e.Request.Method, e.Request.Path, string(e.Request.Body), headers...)
	answer := exampleAnswer{Status: got.Code, Headers: map[string]string{}, Body: maskCursor(a.t, got)}
	for _, name := range shownHeaders {
		if value := got.Header().Get(name); value != "" {
			answer.Headers[name] = value
		}
	}
	answer.maskOperation()
	return answer
}

// The secrets of the examples: the default, and the one that is made.
const (
	exampleDefault = "whsec_VGhlIGRlZmF1bHQgc2VjcmV0IG9mIHRoZSBleGFtcGxlcw=="
	exampleMade    = "whsec_bWFkZSBmb3IgdGhlIGV4YW1wbGVzLCBub3QgYXQgcmFuZG9t"
)

// exampleSigning makes the same secret each time.
type exampleSigning struct{ *signing.Secrets }

func (s exampleSigning) Replace(ctx context.Context, topic, secret string, overlap time.Duration, allow ...documents.Allow) (signing.Change, error) {
	if secret == "" {
		secret = exampleMade
	}
	return s.Secrets.Replace(ctx, topic, secret, overlap, allow...)
}

// maskOperation puts the id of an example in the place of a random one.
func (e *exampleAnswer) maskOperation() {
	const calls, id = "../v1/operations/", "01KDWD7DTP0000000000000007"
	if made, ok := strings.CutPrefix(e.Headers["Location"], calls); ok {
		e.Headers["Location"] = calls + id
		e.Body = bytes.ReplaceAll(e.Body, []byte(made), []byte(id))
	}
}

// maskCursor hides what the store alone knows the meaning of.
func maskCursor(t testing.TB, got *httptest.ResponseRecorder) []byte {
	t.Helper()
	body := bytes.TrimSpace(got.Body.Bytes())
	var page struct {
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if page.NextCursor == "" {
		return body
	}
	return bytes.Replace(body, []byte(page.NextCursor), []byte("bmV4dCBwYWdl"), 1)
}

// TestExamples plays the examples and compares the answers with the files, and
// the examples of the guide with the guide. With -update it writes them there.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(exampleFiles)
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	made := 0
	a := newAPI(t, func(o *testOptions) {
		o.NewUID = func(job.Key) (string, error) {
			made++
			return fmt.Sprintf("01KDWCJ2M0%016d", made), nil
		}
	})
	a.v1.Signing = exampleSigning{a.signing}
	a.endpoints.answer = (&exampleAttempt{Status: 500, Error: "http_500", Body: "try later", DNS: 3, Connect: 11, TLS: 24, FirstByte: 42}).attempt()
	if _, err := a.signing.Replace(t.Context(), "", exampleDefault, 0); err != nil {
		t.Fatal(err)
	}
	guide, shown := readGuide(t), 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		e := readExample(t, file)
		answer := e.play(a)
		if *update {
			e.Answer = answer
			writeJSONFile(t, file, e)
		} else if diff := cmp.Diff(indented(t, e.Answer), indented(t, answer)); diff != "" {
			t.Errorf("%s (run with -update if this is meant):\n%s", name, diff)
		}
		if len(e.Guide) == 0 {
			continue
		}
		shown++
		page, written := inGuide(t, guide, name, e.render(t))
		if !*update && guide[page] != written {
			t.Errorf("%s shows another %s; run with -update", page, name)
		}
		guide[page] = written
	}
	examples := 0
	for page, text := range guide {
		examples += strings.Count(text, "<!-- example ")
		if *update {
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if examples != shown {
		t.Errorf("docs/api has %d examples, and %d files are for it", examples, shown)
	}
}

// readGuide reads the pages of the guide, by path.
func readGuide(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob(exampleGuide)
	if err != nil || len(pages) == 0 {
		t.Fatalf("no guide: %v", err)
	}
	guide := make(map[string]string, len(pages))
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		guide[page] = string(text)
	}
	return guide
}

func readExample(t *testing.T, file string) *example {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := new(example)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(e); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return e
}

func writeJSONFile(t *testing.T, file string, v any) {
	t.Helper()
	if err := os.WriteFile(file, []byte(indented(t, v)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// inGuide puts text between the markers of an example in the guide, and returns the page and its text.
func inGuide(t *testing.T, guide map[string]string, name, text string) (page, written string) {
	t.Helper()
	opening, closing := "<!-- example "+name+" -->\n", "<!-- end of example -->\n"
	for page, content := range guide {
		before, rest, ok := strings.Cut(content, opening)
		if !ok {
			continue
		}
		_, after, ok := strings.Cut(rest, closing)
		if !ok {
			t.Fatalf("%s: example %s has no end", page, name)
		}
		return page, before + opening + text + closing + after
	}
	t.Fatalf("no page of docs/api shows %s", name)
	return "", ""
}

// render writes the request as a curl command, and the answer with the fields
// that the guide shows.
func (e *example) render(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("```sh\ncurl")
	r := &e.Request
	if r.Method != http.MethodGet && (r.Method != http.MethodPost || r.Body == nil) {
		b.WriteString(" -X " + r.Method)
	}
	b.WriteString(" '" + guideServer + r.Path + "'")
	for name, value := range r.Headers {
		b.WriteString(" -H '" + name + ": " + value + "'")
	}
	if r.Body != nil {
		b.WriteString(" -H 'Content-Type: application/json' -d '" + folded(t, r.Body, "") + "'")
	}
	body := e.Answer.Body
	if e.Guide[0] != "*" {
		body = chosen(t, body, e.Guide)
	}
	fmt.Fprintf(&b, "\n```\n```\nHTTP %d %s\n%s\n```\n", e.Answer.Status, http.StatusText(e.Answer.Status), folded(t, body, ""))
	return b.String()
}

const (
	guideServer = "http://127.0.0.1:7788"
	guideWidth  = 100
)

// member is a field of a JSON object, or an element of an array without a name.
type member struct {
	name  string
	value json.RawMessage
}

// jsonMembers takes an object or array apart. Everything else has none.
func jsonMembers(t *testing.T, value []byte) []member {
	t.Helper()
	value = bytes.TrimSpace(value)
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return nil
	}
	var all []member
	decoder := json.NewDecoder(bytes.NewReader(value))
	_, err := decoder.Token()
	for err == nil && decoder.More() {
		var m member
		if value[0] == '{' {
			var name json.Token
			if name, err = decoder.Token(); err != nil {
				break
			}
			m.name = name.(string)
		}
		err = decoder.Decode(&m.value)
		all = append(all, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// chosen keeps the fields at the paths, and puts an ellipsis in place of the
// others. A path goes through arrays.
func chosen(t *testing.T, value []byte, paths []string) []byte {
	t.Helper()
	if value[0] == '[' {
		var elements [][]byte
		for _, m := range jsonMembers(t, value) {
			elements = append(elements, chosen(t, m.value, paths))
		}
		return slices.Concat([]byte{'['}, bytes.Join(elements, []byte{','}), []byte{']'})
	}
	var fields []string
	more := false
	for _, m := range jsonMembers(t, value) {
		whole, below := false, []string(nil)
		for _, path := range paths {
			first, rest, deeper := strings.Cut(path, ".")
			whole = whole || first == m.name && !deeper
			if first == m.name && deeper {
				below = append(below, rest)
			}
		}
		switch {
		case whole:
			fields = append(fields, strconv.Quote(m.name)+":"+string(m.value))
		case below != nil:
			fields = append(fields, strconv.Quote(m.name)+":"+string(chosen(t, m.value, below)))
		default:
			more = true
		}
	}
	if more {
		fields = append(fields, `"…":"…"`)
	}
	return []byte("{" + strings.Join(fields, ",") + "}")
}

// folded is JSON in one line if it fits, else with as many members in each line
// as fit.
func folded(t *testing.T, value []byte, indent string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		t.Fatal(err)
	}
	all := jsonMembers(t, b.Bytes())
	if b.Len()+len(indent) <= guideWidth || all == nil {
		return spaced(b.String())
	}
	inner := indent + "  "
	lines := []string{inner}
	for i, m := range all {
		text := folded(t, m.value, inner)
		if m.name != "" {
			text = strconv.Quote(m.name) + ": " + text
		}
		if i < len(all)-1 {
			text += ","
		}
		last := &lines[len(lines)-1]
		switch {
		case *last == inner:
			*last += text
		case len(*last)+1+len(text) > guideWidth || strings.Contains(*last, "\n") || strings.Contains(text, "\n"):
			lines = append(lines, inner+text)
		default:
			*last += " " + text
		}
	}
	opening, closing := b.Bytes()[0], b.Bytes()[b.Len()-1]
	return string(opening) + "\n" + strings.Join(lines, "\n") + "\n" + indent + string(closing)
}

// spaced puts a space behind each colon and comma of compact JSON.
func spaced(compact string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, c := range compact {
		b.WriteRune(c)
		switch {
		case escaped:
			escaped = false
		case c == '\\' && quoted:
			escaped = true
		case c == '"':
			quoted = !quoted
		case (c == ':' || c == ',') && !quoted:
			b.WriteByte(' ')
		}
	}
	return b.String()
}
