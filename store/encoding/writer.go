package encoding

import (
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// writer writes the fields of a map.
type writer struct {
	b      []byte
	fields uint32
}

// smallMap is the most fields of a map whose header is one byte.
const smallMap = 15

// appendMap appends a map. Most have few fields, so it leaves one byte for the header.
func appendMap(b []byte, write func(w *writer)) []byte {
	w := writer{b: msgp.AppendMapHeader(b, 0)}
	write(&w)
	if w.fields > smallMap {
		header := msgp.AppendMapHeader(nil, w.fields)
		w.b = slices.Insert(w.b, len(b), header[1:]...)
	}
	msgp.AppendMapHeader(w.b[:len(b)], w.fields)
	return w.b
}

// key begins a field.
func (w *writer) key(name string) []byte {
	w.fields++
	return msgp.AppendString(w.b, name)
}

func (w *writer) always(name, s string) { w.b = msgp.AppendString(w.key(name), s) }

// text writes a field unless it is empty, as integer does.
func (w *writer) text(name, s string) {
	if s != "" {
		w.always(name, s)
	}
}

func (w *writer) integer(name string, n int64) {
	if n != 0 {
		w.b = appendInt(w.key(name), n)
	}
}

// array begins a field of so many elements.
func (w *writer) array(name string, n int) {
	w.b = msgp.AppendArrayHeader(w.key(name), uint32(n))
}

// appendInt appends n in as few bytes as can be.
func appendInt(b []byte, n int64) []byte {
	if n > 0 {
		return msgp.AppendUint64(b, uint64(n))
	}
	return msgp.AppendInt64(b, n)
}
