package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/store"
)

// weighed notes the most bytes that one call of Restore had.
type weighed struct {
	store.Restorable
	most *atomic.Int64
}

func (w weighed) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	total := int64(0)
	for i := range jobs {
		total += int64(len(jobs[i].Job.Spec.Body))
	}
	for {
		most := w.most.Load()
		if total <= most || w.most.CompareAndSwap(most, total) {
			return w.Restorable.Restore(ctx, jobs)
		}
	}
}

// weighing wraps the store of a ledger; the result is the most bytes so far.
func weighing() (with, *atomic.Int64) {
	most := &atomic.Int64{}
	return wrapped(func(s store.Restorable) store.Restorable { return weighed{s, most} }), most
}

// Several times store.BatchBytes.
const largeBody, largeJobs = 64 << 10, 40

func (r *rig) addLarge() {
	for i := range largeJobs {
		g := reg(fmt.Sprint("large-", i), time.Hour)
		g.Spec.Body = bytes.Repeat([]byte("x"), largeBody)
		r.Add(g)
	}
}

// sameJobs compares without a report of differences, which takes minutes for such bodies.
func sameJobs[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Error("the jobs are others than before")
	}
}

func notAbove(t *testing.T, most *atomic.Int64) {
	t.Helper()
	if n := most.Load(); n == 0 || n > store.BatchBytes+largeBody {
		t.Errorf("%d bytes were put back with one call", n)
	}
}

func TestLargeJobsAreRepairedInParts(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, shares := shared()
		option, most := weighing()
		r := freshRig(t, b, retention, shares, option)
		r.addLarge()
		want := r.All()
		l.flush(t)
		report, err := r.CompareOnce(t.Context())
		noError(t, "CompareOnce", err)
		equal(t, "restored", report.Restored, int64(largeJobs))
		sameJobs(t, r.All(), want)
		notAbove(t, most)
	})(t)
}

// What the ledger lacks is written to it in several transactions.
func TestLargeJobsThatTheLedgerLacks(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		_, shares := shared()
		r := freshRig(t, b, retention, shares)
		r.addLarge()
		noError(t, "Flush", r.Flush())
		for _, table := range []string{"flow", "payload", "message"} {
			noError(t, "Exec", r.Exec(t.Context(), "DELETE FROM "+table))
		}
		report, err := r.CompareOnce(t.Context())
		noError(t, "CompareOnce", err)
		equal(t, "repaired", report.Repaired, int64(largeJobs))
		equal(t, "messages", r.Rows()["message"], fmt.Sprint(largeJobs))
		r.agree()
	})(t)
}
