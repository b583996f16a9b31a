// Package decode decodes requests strictly and encodes answers, for dialects.
package decode

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// part is how large a part of an answer becomes before it is written. An answer of one part is written whole.
const part = 48 << 10

// Answer answers with the object of a view. A large answer is written in
// parts: it takes as much memory as one of them.
func Answer(c *httpapi.Call, status int, v jsonio.View) error {
	b := httpapi.Buffer()
	defer httpapi.Release(b)
	started := false
	w := jsonio.Writer{B: b.AvailableBuffer(), Part: part}
	w.Pass = func(text []byte) error {
		if !started {
			if err := c.Add(2 * part); err != nil {
				return err
			}
			started = true
			c.Start(status, httpapi.MIMEJSON)
		}
		_, err := c.Writer.Write(text)
		return err
	}
	text := append(w.Object(v), '\n')
	if w.Err != nil {
		return w.Err
	}
	if started {
		_, err := c.Writer.Write(text)
		return err
	}
	b.Write(text) // in place, if there was room for it
	return c.Write(status, httpapi.MIMEJSON, b.Bytes())
}
