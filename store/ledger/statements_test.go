package ledger

import (
	"database/sql"
	"testing"

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
		seqs, bytes := args[0].([]int64), 0
		for i, seq := range seqs {
			if seq != next {
				t.Errorf("row %d follows row %d", seq, next-1)
			}
			next, bytes = seq+1, bytes+len(args[1].([][]byte)[i])
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
