package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write openapi.json.gz anew")

// The embedded document has the content of openapi.yaml.
func TestOpenAPI(t *testing.T) {
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	openAnswers(document)
	want, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = w.Write(want)
		_ = w.Close()
		if err := os.WriteFile("openapi.json.gz", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if got, err := unpack(openAPI); err != nil || !bytes.Equal(got, want) {
		t.Errorf("openapi.json.gz is not of openapi.yaml (%v); write it anew with: go test ./httpapi -run TestOpenAPI -update", err)
	}
}

// A client that was generated from the document accepts answers with members that came later.
// Schemas of requests alone stay strict.
func TestServedAnswersMayGetMembers(t *testing.T) {
	data, err := unpack(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var check func(where string, at any)
	check = func(where string, at any) {
		switch at := at.(type) {
		case []any:
			for _, v := range at {
				check(where, v)
			}
		case map[string]any:
			if at["additionalProperties"] == false || at["unevaluatedProperties"] == false {
				t.Errorf("%s forbids unknown members", where)
			}
			if to, ok := at["$ref"].(string); ok && !seen[to] {
				seen[to] = true
				check(to, follow(document, to))
			}
			for name, v := range at {
				check(where+"/"+name, v)
			}
		}
	}
	sent(document, check)
	if !seen["#/components/schemas/Job"] || !seen["#/components/schemas/Problem"] {
		t.Errorf("the schemas of answers were not found: %v", seen)
	}
	if !strings.Contains(string(data), `"additionalProperties":false`) {
		t.Error("requests permit unknown members")
	}
}

// openAnswers permits unknown members in all schemas of answers. The source forbids them, so
// that tests notice members that it lacks; a generated client would fail at the next new one.
func openAnswers(document map[string]any) {
	seen := map[string]bool{}
	var open func(any)
	open = func(at any) {
		switch at := at.(type) {
		case []any:
			for _, v := range at {
				open(v)
			}
		case map[string]any:
			for _, name := range []string{"additionalProperties", "unevaluatedProperties"} {
				if at[name] == false {
					delete(at, name)
				}
			}
			if to, ok := at["$ref"].(string); ok && !seen[to] {
				seen[to] = true
				open(follow(document, to))
			}
			for _, v := range at {
				open(v)
			}
		}
	}
	sent(document, func(_ string, at any) { open(at) })
}

// sent calls do with what the server sends: answers, and the requests of webhooks.
func sent(document map[string]any, do func(where string, at any)) {
	for part, of := range map[string]string{"paths": "responses", "webhooks": "requestBody"} {
		for path, item := range document[part].(map[string]any) {
			for method, call := range item.(map[string]any) {
				if call, ok := call.(map[string]any); ok { // not the parameters of a path
					do(method+" "+path, call[of])
				}
			}
		}
	}
}

// Each schema is that of a call, of a webhook, or a part of one.
func TestSchemasAreUsed(t *testing.T) {
	data, err := unpack(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	for name := range document["components"].(map[string]any)["schemas"].(map[string]any) {
		if !bytes.Contains(data, []byte(`"#/components/schemas/`+name+`"`)) {
			t.Errorf("nothing refers to the schema %s", name)
		}
	}
}

// follow returns what a reference within the document leads to.
func follow(document map[string]any, to string) any {
	var at any = document
	for part := range strings.SplitSeq(strings.TrimPrefix(to, "#/"), "/") {
		at = at.(map[string]any)[part]
	}
	return at
}
