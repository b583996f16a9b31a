package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

// openAPISource is the OpenAPI document. It is written in YAML, for people.
//
//go:embed openapi.yaml
var openAPISource []byte

// OpenAPI returns the document as it is served: in JSON. Parsing the YAML takes about
// 30 ms, so the first request does it, and not each start.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(openAPISource, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	return data, nil
})
