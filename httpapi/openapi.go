package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// openAPISource is the OpenAPI document. It is written in YAML, for people.
//
//go:embed openapi.yaml
var openAPISource []byte

// OpenAPI is the document as it is served: in JSON.
func OpenAPI() ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(openAPISource, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	return data, nil
}
