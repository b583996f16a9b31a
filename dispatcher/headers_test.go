package dispatcher

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
)

func TestHeaderExcerpt(t *testing.T) {
	long := strings.Repeat("x", 2_000)
	for name, tc := range map[string]struct {
		header http.Header
		want   []job.Header
	}{
		"none":         {http.Header{}, nil},
		"sorted":       {http.Header{"Server": {"nginx"}, "Date": {"now"}}, []job.Header{{Name: "Date", Value: "now"}, {Name: "Server", Value: "nginx"}}},
		"several":      {http.Header{"Via": {"a", "b"}}, []job.Header{{Name: "Via", Value: "a, b"}}},
		"empty":        {http.Header{"Via": {""}}, []job.Header{{Name: "Via"}}},
		"no text":      {http.Header{"Via": {"\xff\x00"}}, []job.Header{{Name: "Via", Value: "\uFFFD\uFFFD"}}},
		"one is long":  {http.Header{"X": {long}}, []job.Header{{Name: "X", Value: long[:headerLimit-5]}}},
		"short first":  {http.Header{"A": {long}, "Server": {"nginx"}}, []job.Header{{Name: "A", Value: long[:headerLimit-20]}, {Name: "Server", Value: "nginx"}}},
		"no room left": {http.Header{"A": {long[:headerLimit-6]}, "B": {long}}, []job.Header{{Name: "A", Value: long[:headerLimit-6]}}},
		"cookies": {
			http.Header{"Set-Cookie": {"session=secret; Path=/; HttpOnly", "b=secret", "secret"}, "Cookie": {"a=secret; b=secret"}},
			[]job.Header{{Name: "Cookie", Value: "***"}, {Name: "Set-Cookie", Value: "session=***; Path=/; HttpOnly, b=***, ***"}},
		},
		"credentials": {
			http.Header{
				"Authorization": {"Bearer secret"}, "Proxy-Authorization": {"secret"}, "Www-Authenticate": {`Digest nonce="secret"`},
				"Proxy-Authenticate": {"NTLM secret"}, "Authentication-Info": {"secret"}, "X-Csrf-Token": {"secret"}, "X-Api-Key": {"secret"},
			},
			[]job.Header{
				{Name: "Authentication-Info", Value: "***"},
				{Name: "Authorization", Value: "Bearer ***"},
				{Name: "Proxy-Authenticate", Value: "NTLM ***"},
				{Name: "Proxy-Authorization", Value: "***"},
				{Name: "Www-Authenticate", Value: "Digest ***"},
				{Name: "X-Api-Key", Value: "***"},
				{Name: "X-Csrf-Token", Value: "***"},
			},
		},
	} {
		if diff := cmp.Diff(tc.want, headerExcerpt(tc.header)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever a receiver sends: text, within the limit, and no name twice.
func TestHeaderExcerptIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := http.Header(rapid.MapOf(rapid.String(), rapid.SliceOfN(rapid.StringN(0, 300, 900), 1, 3)).Draw(t, "header"))
		size := 0
		for _, kept := range headerExcerpt(h) {
			size += headerSize(kept)
			if !utf8.ValidString(kept.Name+kept.Value) || strings.ContainsRune(kept.Name+kept.Value, 0) {
				t.Fatalf("%+q is no text", kept)
			}
		}
		if size > headerLimit {
			t.Fatalf("%d bytes are kept", size)
		}
	})
}
