package qstash_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi/qstash"
	"github.com/duehook/duehook/internal/testing/fronts"
)

const patience = 20 * time.Second

// server is a node with the dialect, and its receiver.
type server struct {
	*fronts.Server
	// bound are the values of ids and keys, by their names in the examples.
	bound map[string]string
}

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{fronts.Start(t, "qstash", "qstash*"), map[string]string{}}
}

// call makes a request; a token in the query is the only one.
func (s *server) call(method, target string, h http.Header, body string) (int, []byte) {
	s.T.Helper()
	if strings.Contains(target, "qstash_token=") {
		token := s.Token
		defer func() { s.Token = token }()
		s.Token = ""
	}
	return s.Call(method, target, h, body)
}

// await returns the next delivery to a target, of one message unless the id is empty.
func (s *server) await(target, id string) fronts.Delivery {
	s.T.Helper()
	return s.Await(target, func(d fronts.Delivery) bool { return id == "" || d.Header.Get("Upstash-Message-Id") == id })
}

var (
	exampleForm = regexp.MustCompile(`^(?:(\d+) )?(>|<|delivery) ?(.*)$`)
	requestForm = regexp.MustCompile(`^(\S+) (\S+)(?:  \[([^\]{]*)\])?(?:  (.*))?$`)
	idForm      = regexp.MustCompile(`\b(?:msg|dlq|sig|jwt)_\d+\b`)
)

// filled has the bound ids, and the receiver.
func (s *server) filled(text string) string {
	text = strings.NewReplacer("/R/", "/"+s.Receiver.URL+"/", `"R/`, `"`+s.Receiver.URL+"/", " R/", " "+s.Receiver.URL+"/", "TOKEN", s.Token).Replace(text)
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
	admin := s.Token
	for _, r := range qstash.New(qstash.Options{}).Routes {
		target := strings.NewReplacer("*", "https://h.example", "{id}", "x", "{name}", "x", "{queue}", "x").Replace(r.Path)
		expect := map[string]int{
			"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, s.Restricted: http.StatusForbidden, s.Consumer: http.StatusForbidden,
		}
		if r.Method != http.MethodGet || r.Path == "/v2/keys" {
			expect[s.Reader] = http.StatusForbidden
		}
		for s.Token = range expect {
			status, text := s.call(r.Method, target, nil, "")
			var answer struct{ Error string }
			if status != expect[s.Token] || json.Unmarshal(text, &answer) != nil || answer.Error == "" {
				t.Errorf("%s %s with %q: %d %s", r.Method, target, s.Token, status, text)
			}
		}
	}
	s.Token = admin
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
	s.T.Helper()
	h := headersOf(want[3])
	got := s.await(want[2], h.Get("Upstash-Message-Id"))
	for name, values := range h {
		if got.Header.Get(name) != values[0] {
			s.T.Errorf("%s: %s is %q, want %q", example, name, got.Header.Get(name), values[0])
		}
	}
	if want[4] != "" && strings.HasPrefix(want[4], "{") {
		if diff := s.differs(got.Content, want[4]); diff != "" {
			s.T.Errorf("%s: %s in %s", example, diff, got.Content)
		}
	} else if want[4] != string(got.Content) && want[4] != "" {
		s.T.Errorf("%s: got %q", example, got.Content)
	}
	for name := range got.Header {
		if strings.HasPrefix(name, "Upstash-Forward") || name == "Authorization" || strings.HasPrefix(name, "Upstash-Retry-") {
			s.T.Errorf("%s: %s was passed on", example, name)
		}
	}
	s.checkSignature(got)
}

// checkSignature verifies a signature as the SDKs do.
func (s *server) checkSignature(d fronts.Delivery) {
	s.T.Helper()
	status, text := s.call(http.MethodGet, "/v2/keys", nil, "")
	var keys struct{ Current, Next string }
	if err := json.Unmarshal(text, &keys); err != nil || status != http.StatusOK {
		s.T.Fatalf("%d %s", status, text)
	}
	parts := strings.Split(d.Header.Get("Upstash-Signature"), ".")
	if len(parts) != 3 {
		s.T.Fatalf("the signature is %q", parts)
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
	digest := sha256.Sum256(d.Content)
	if err != nil || parts[2] != base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) || claims.Iss != "Upstash" ||
		claims.Sub != s.Receiver.URL+d.URL.String() || claims.Body != base64.URLEncoding.EncodeToString(digest[:]) ||
		claims.Jti == "" || claims.Exp != claims.Iat+300 || claims.Nbf == nil || *claims.Nbf != 0 {
		s.T.Errorf("%v in %s", err, raw)
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
