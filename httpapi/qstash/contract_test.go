package qstash_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi/qstash"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node"
	"github.com/duehook/duehook/node/config"
)

const patience = 20 * time.Second

// server is a node with the dialect, and its receiver.
type server struct {
	t     *testing.T
	base  string
	token string // of an admin
	// reader may read; restricted may write, in the topics of the dialect.
	reader, restricted string
	receiver           *httptest.Server
	deliveries         chan delivery
	pending            []delivery // nobody has waited for them yet
	// bound are the values of ids and keys, by their names in the examples.
	bound map[string]string
}

type delivery struct {
	*http.Request
	body []byte
}

// newServer starts a node whose receiver answers /fails with 500, and /hold when the test ends.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, deliveries: make(chan delivery, 100), bound: map[string]string{}}
	end := make(chan struct{})
	s.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.deliveries <- delivery{r, body}
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		switch r.URL.Path {
		case "/hold":
			<-end
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no")
		}
	}))
	t.Cleanup(s.receiver.Close)
	t.Cleanup(func() { close(end) })

	var keys []string
	for scope, token := range map[string]*string{"admin": &s.token, "read": &s.reader, "write --topics=qstash*": &s.restricted} {
		var out bytes.Buffer
		if err := access.Command(append([]string{"new"}, strings.Fields("--scope="+scope)...), job.SystemClock(), &out); err != nil {
			t.Fatal(err)
		}
		text, line, _ := strings.Cut(out.String(), "\nline")
		*token, keys = strings.TrimPrefix(text, "token "), append(keys, strings.TrimSpace(line))
	}
	c, err := config.Load([]string{
		"--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--workers=16", "--data-dir", t.TempDir(), "--dialects=qstash",
		"--grace=1s", "--api-keys=" + strings.Join(keys, ","),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- node.Run(ctx, node.Options{Config: c, Logger: slog.New(slog.DiscardHandler), Version: "test", Ready: func(base string) { ready <- base }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case s.base = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return s
}

// call makes a request, and returns the status and the body of the answer.
func (s *server) call(method, target string, h http.Header, body string) (int, []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(req.Header, h)
	if !strings.Contains(target, "qstash_token=") {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // an answer that redirects would fail
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, text
}

// await returns the next delivery to a target, of one message unless the id is empty.
func (s *server) await(target, id string) delivery {
	s.t.Helper()
	wanted := func(d delivery) bool {
		return d.URL.String() == target && (id == "" || d.Header.Get("Upstash-Message-Id") == id)
	}
	limit := time.After(patience)
	for {
		if i := slices.IndexFunc(s.pending, wanted); i >= 0 {
			d := s.pending[i]
			s.pending = slices.Delete(s.pending, i, i+1)
			return d
		}
		select {
		case d := <-s.deliveries:
			s.pending = append(s.pending, d)
		case <-limit:
			s.t.Fatalf("nothing was delivered to %s", target)
		}
	}
}

var (
	exampleForm = regexp.MustCompile(`^(?:(\d+) )?(>|<|delivery) ?(.*)$`)
	requestForm = regexp.MustCompile(`^(\S+) (\S+)(?:  \[([^\]{]*)\])?(?:  (.*))?$`)
	idForm      = regexp.MustCompile(`\b(?:msg|dlq|sig|jwt)_\d+\b`)
)

// filled has the bound ids, and the receiver.
func (s *server) filled(text string) string {
	text = strings.NewReplacer("/R/", "/"+s.receiver.URL+"/", `"R/`, `"`+s.receiver.URL+"/", " R/", " "+s.receiver.URL+"/", "TOKEN", s.token).Replace(text)
	return idForm.ReplaceAllStringFunc(text, func(name string) string {
		if value, known := s.bound[name]; known {
			return value
		}
		return name
	})
}

// The numbered examples of the contract.
func TestExamples(t *testing.T) {
	s := newServer(t)
	file, err := os.Open("testdata/examples.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, example := bufio.NewScanner(file), ""
	lines.Buffer(nil, 1<<20)
	var status int
	var answer []byte
	for lines.Scan() {
		parts := exampleForm.FindStringSubmatch(strings.TrimSpace(lines.Text()))
		if parts == nil {
			continue
		}
		if parts[1] != "" {
			example = parts[1]
		}
		switch parts[2] {
		case ">":
			r := requestForm.FindStringSubmatch(s.filled(parts[3]))
			status, answer = s.call(r[1], r[2], headersOf(r[3]), r[4])
		case "<":
			wantStatus, want, _ := strings.Cut(parts[3], " ")
			if fmt.Sprint(status) != wantStatus {
				t.Errorf("%s: %d %s, want %s", example, status, answer, parts[3])
			} else if diff := s.differs(answer, s.filled(want)); diff != "" {
				t.Errorf("%s: %s\n%s\nwant\n%s", example, diff, answer, want)
			}
		default:
			s.checkDelivery(example, requestForm.FindStringSubmatch(s.filled(parts[3])))
		}
	}
}

// Every call needs a key of its scope, and says so in the form of the dialect.
func TestEveryRouteAsksForAKey(t *testing.T) {
	s := newServer(t)
	admin := s.token
	for _, r := range qstash.New(qstash.Options{}).Routes {
		target := strings.NewReplacer("*", "https://h.example", "{id}", "x", "{name}", "x", "{queue}", "x").Replace(r.Path)
		expect := map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, s.restricted: http.StatusForbidden}
		if r.Scope != access.Read {
			expect[s.reader] = http.StatusForbidden
		}
		for s.token = range expect {
			status, text := s.call(r.Method, target, nil, "")
			var answer struct{ Error string }
			if status != expect[s.token] || json.Unmarshal(text, &answer) != nil || answer.Error == "" {
				t.Errorf("%s %s with %q: %d %s", r.Method, target, s.token, status, text)
			}
		}
	}
	s.token = admin
	if status, text := s.call(http.MethodGet, "/v2/llm/v1/chat", nil, ""); status != http.StatusNotFound || !strings.Contains(string(text), "docs/migrate/qstash.md") {
		t.Errorf("an unknown call: %d %s", status, text)
	}
}

func headersOf(text string) http.Header {
	h := http.Header{}
	for part := range strings.SplitSeq(text, "; ") {
		if name, value, ok := strings.Cut(part, ": "); ok {
			h.Set(strings.TrimSpace(name), value)
		}
	}
	return h
}

func (s *server) checkDelivery(example string, want []string) {
	s.t.Helper()
	h := headersOf(want[3])
	got := s.await(want[2], h.Get("Upstash-Message-Id"))
	for name, values := range h {
		if got.Header.Get(name) != values[0] {
			s.t.Errorf("%s: %s is %q, want %q", example, name, got.Header.Get(name), values[0])
		}
	}
	if want[4] != "" && strings.HasPrefix(want[4], "{") {
		if diff := s.differs(got.body, want[4]); diff != "" {
			s.t.Errorf("%s: %s in %s", example, diff, got.body)
		}
	} else if want[4] != string(got.body) && want[4] != "" {
		s.t.Errorf("%s: got %q", example, got.body)
	}
	for name := range got.Header {
		if strings.HasPrefix(name, "Upstash-Forward") || name == "Authorization" || strings.HasPrefix(name, "Upstash-Retry-") {
			s.t.Errorf("%s: %s was passed on", example, name)
		}
	}
	s.checkSignature(got)
}

// checkSignature verifies a signature as the SDKs do.
func (s *server) checkSignature(d delivery) {
	s.t.Helper()
	status, text := s.call(http.MethodGet, "/v2/keys", nil, "")
	var keys struct{ Current, Next string }
	if err := json.Unmarshal(text, &keys); err != nil || status != http.StatusOK {
		s.t.Fatalf("%d %s", status, text)
	}
	parts := strings.Split(d.Header.Get("Upstash-Signature"), ".")
	if len(parts) != 3 {
		s.t.Fatalf("the signature is %q", parts)
	}
	mac := hmac.New(sha256.New, []byte(keys.Current))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Iss, Sub, Jti, Body string
		Iat, Exp            int64
		Nbf                 *int64
	}
	if err == nil {
		err = json.Unmarshal(raw, &claims)
	}
	digest := sha256.Sum256(d.body)
	if err != nil || parts[2] != base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) || claims.Iss != "Upstash" ||
		claims.Sub != s.receiver.URL+d.URL.String() || claims.Body != base64.URLEncoding.EncodeToString(digest[:]) ||
		claims.Jti == "" || claims.Exp != claims.Iat+300 || claims.Nbf == nil || *claims.Nbf != 0 {
		s.t.Errorf("%v in %s", err, raw)
	}
}

// differs compares JSON with that of an example, and binds ids that were not used before.
func (s *server) differs(got []byte, want string) string {
	if strings.TrimSpace(want) == "" {
		return ""
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		return "the example: " + err.Error()
	}
	return s.differ("", a, b)
}

const firstTime = 1.7e12 // milliseconds: from here on, a number is a time

func (s *server) differ(at string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(g)), slices.Sorted(maps.Keys(want))) {
			return fmt.Sprintf("%s has %v, want %v", at, got, want)
		}
		for name, w := range want {
			if diff := s.differ(at+"/"+name, g[name], w); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return fmt.Sprintf("%s has %v, want %v", at, got, want)
		}
		for i := range want {
			if diff := s.differ(fmt.Sprint(at, "/", i), g[i], want[i]); diff != "" {
				return diff
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if ok && idForm.MatchString(want) && idForm.FindString(want) == want && strings.HasPrefix(g, want[:4]) {
			s.bound[want] = g
			return ""
		}
	case float64:
		if g, ok := got.(float64); ok && g >= firstTime && want >= firstTime {
			return ""
		}
	}
	if got != want {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}
