package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// openAPISource is the OpenAPI document. It is written in YAML, for people.
//
//go:embed openapi.yaml
var openAPISource []byte

// OpenAPI returns the document as it is served: in JSON, with answers that may get more
// members (see openAnswers). Parsing the YAML takes about 30 ms, so the first request does it,
// and not each start.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(openAPISource, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	openAnswers(document)
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	return data, nil
})

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
	for _, item := range document["paths"].(map[string]any) {
		for _, call := range item.(map[string]any) {
			if call, ok := call.(map[string]any); ok { // not the parameters of a path
				open(call["responses"])
			}
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
