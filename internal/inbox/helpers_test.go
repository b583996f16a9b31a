package inbox_test

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// transaction is one of an application.
type transaction struct {
	b              *bench
	tx             *sql.Tx
	writer, number int
	undone         *bool
}

func (x transaction) insert(request string) {
	if err := x.b.insert(x.b.Context(), x.tx, request); err != nil {
		x.b.Errorf("insert: %v", err)
	}
}

func (x transaction) rollBack() { *x.undone = true }

// write has applications write at the same time, each one transaction after the other.
func (b *bench) write(writers, transactions int, each func(transaction)) {
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for number := range transactions {
				b.transact(transaction{b: b, writer: writer, number: number, undone: new(bool)}, each)
			}
		})
	}
	all.Wait()
}

func (b *bench) transact(x transaction, each func(transaction)) {
	var err error
	if x.tx, err = b.db.BeginTx(b.Context(), nil); err != nil {
		b.Errorf("begin: %v", err)
		return
	}
	each(x)
	end := x.tx.Commit
	if *x.undone {
		end = x.tx.Rollback
	}
	if err := end(); err != nil {
		b.Errorf("end: %v", err)
	}
}

// takeOne takes a job.
var takeOne = store.TakeOptions{Max: 1, Wait: time.Minute, Lease: time.Hour, LeaseMargin: time.Hour, By: "worker", Limits: store.FlightLimits{EndpointLimit: 10, HalfOpenLimit: 10}}

func delivered(j *job.Job) job.Settlement {
	return job.Settle(j, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1}}, nil)
}

// makeGroup makes a group of two members.
func makeGroup(t *testing.T, b *bench) {
	t.Helper()
	_, _, err := groups.New(b.store, app.Guard(nil).Check, nil).Put(t.Context(), groups.Group{Name: "shops", Members: []groups.Member{
		{Name: "one", URL: "https://one.example/"}, {Name: "two", URL: "https://two.example/"},
	}})
	must.OK(t, err)
}
