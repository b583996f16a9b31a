// Package wire decodes requests strictly and encodes answers, for dialects.
package wire

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/kit/jsonout"
)

// Answer answers with the object of a view.
func Answer(c *httpapi.Call, status int, v jsonout.View) error {
	b := httpapi.Buffer()
	defer httpapi.Release(b)
	w := jsonout.Writer{B: b.AvailableBuffer()}
	b.Write(append(w.Object(v), '\n')) // in place, if there was room for it
	return c.Write(status, httpapi.MIMEJSON, b.Bytes())
}
