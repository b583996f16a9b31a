package httpapi

import (
	_ "embed"
	"net/http"
)

// openAPI is the document of openapi.yaml as it is served: in JSON, in gzip, with answers that may
// get more members. Written by: go test ./httpapi -run TestOpenAPI -update
//
//go:embed openapi.json.gz
var openAPI []byte

var openAPIText = NewPacked(openAPI)

// document answers GET /openapi.json.
func (s *Server) document(c *Call) error {
	document, err := openAPIText.For(c.Request, c.Header())
	if err != nil {
		return err
	}
	return c.WriteStatic(http.StatusOK, MIMEJSON, document)
}
