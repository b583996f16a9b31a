package diskstore

import (
	"encoding/binary"
	"errors"
)

// writer and reader encode rows: whole numbers in as few bytes as possible, and texts with
// their lengths.
type writer struct{ b []byte }

func (w *writer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }
func (w *writer) int(n int64)   { w.b = binary.AppendVarint(w.b, n) }

func (w *writer) text(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) bytes(s []byte) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

// errCut means that a row is shorter than it should be.
var errCut = errors.New("the row is not whole")

// reader reads zero values after an error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.b, r.err = nil, errCut
		return
	}
	r.b = r.b[n:]
}

func (r *reader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errCut
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) text() string { return string(r.bytes()) }
