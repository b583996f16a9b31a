package ledger

import (
	"database/sql"
	wire "encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/store"
)

// A server ends the session of a client that is slow to send a statement, so no statement
// is larger than a batch and one body.
func TestStatementsAreBoundedByBytes(t *testing.T) {
	const rows, body = 100, 256 << 10
	var args []any
	for i := range rows {
		args = append(args, int64(i), make([]byte, body), []byte("spec"), nil)
	}
	b := bulk{shape: postgresWords.putting("payload", payloadColumns, payloadColumns), stmts: []*sql.Stmt{nil}}
	next := int64(0)
	err := b.each(args, func(_ *sql.Stmt, args []any) error {
		bytes, bodies := 0, elements(args[1].(array))
		for i, raw := range elements(args[0].(array)) {
			seq := int64(wire.BigEndian.Uint64(raw))
			if seq != next {
				t.Errorf("row %d follows row %d", seq, next-1)
			}
			next, bytes = seq+1, bytes+len(bodies[i])
		}
		if bytes > store.BatchBytes {
			t.Errorf("a statement of %d bytes", bytes)
		}
		return nil
	})
	if err != nil || next != rows {
		t.Errorf("%d rows were written, error %v", next, err)
	}
}

// elements are the elements of an array; that of a null is nil.
func elements(a array) (list [][]byte) {
	for rest := a[20:]; len(rest) > 0; {
		size := int32(wire.BigEndian.Uint32(rest))
		rest = rest[4:]
		if size < 0 {
			list = append(list, nil)
			continue
		}
		list, rest = append(list, rest[:size]), rest[size:]
	}
	return list
}

func TestArrays(t *testing.T) {
	cols := []column{{name: "n", kind: number}, {name: "m", kind: nullable}, {name: "t", kind: text}, {name: "b", kind: binary}}
	got := arraysOf(cols, []any{int64(7), nil, "x", []byte{}, nil, int64(-1), nil, nil})
	zero := make([]byte, 8)
	want := [][][]byte{
		{{0, 0, 0, 0, 0, 0, 0, 7}, zero},
		{nil, {255, 255, 255, 255, 255, 255, 255, 255}},
		{[]byte("x"), {}},
		{{}, nil},
	}
	for i, a := range got {
		if diff := cmp.Diff(want[i], elements(a.(array))); diff != "" {
			t.Errorf("column %s (-want +got):\n%s", cols[i].name, diff)
		}
		if length := wire.BigEndian.Uint32(a.(array)[12:]); length != 2 {
			t.Errorf("column %s has %d elements", cols[i].name, length)
		}
	}
}
