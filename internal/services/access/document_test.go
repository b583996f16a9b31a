package access

import (
	"os"
	"strings"
	"testing"
)

// The document shows the flags, the fields and the form of tokens.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	want := []string{documentedForm.String()[1 : len(documentedForm.String())-1], "RateLimit-Policy", "RateLimit:", "Retry-After", "--insecure-no-api-keys", "DUEHOOK_API_KEYS_FILE"}
	for name := range keyFields {
		want = append(want, "`"+name+"`")
	}
	for _, w := range want {
		if !strings.Contains(doc, w) {
			t.Errorf("docs/access.md does not say %s", w)
		}
	}
}
