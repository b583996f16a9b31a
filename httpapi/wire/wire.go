// Package wire decodes requests strictly and encodes answers, for dialects.
package wire

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/internal/services/access"
)

// Answer answers with the object of a view. Only callers who may write see what may be secret.
func Answer(c *httpapi.Call, status int, v jsonout.View) error {
	b := httpapi.Buffer()
	defer httpapi.Release(b)
	w := jsonout.Writer{B: b.AvailableBuffer()}
	if c.Allow(access.Write) != nil {
		w.Mask = access.Redact
	}
	b.Write(append(w.Object(v), '\n')) // in place, if there was room for it
	return c.Write(status, httpapi.MIMEJSON, b.Bytes())
}
