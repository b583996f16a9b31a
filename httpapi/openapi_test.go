package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// A client that was generated from the document accepts answers with members that came later.
// Schemas of requests alone stay strict.
func TestServedAnswersMayGetMembers(t *testing.T) {
	data, err := OpenAPI()
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
	for path, item := range document["paths"].(map[string]any) {
		for method, call := range item.(map[string]any) {
			if call, ok := call.(map[string]any); ok {
				check(method+" "+path, call["responses"])
			}
		}
	}
	if !seen["#/components/schemas/Job"] || !seen["#/components/schemas/Problem"] {
		t.Errorf("the schemas of answers were not found: %v", seen)
	}
	if !strings.Contains(string(data), `"additionalProperties":false`) {
		t.Error("requests permit unknown members")
	}
}
