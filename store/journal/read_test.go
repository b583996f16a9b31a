package journal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/duehook/duehook/job"
)

// TestReadsWhatIsCommitted: what a crash may take back is not told to anybody.
func TestReadsWhatIsCommitted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig)
		want   job.State
	}{
		"a cancel":     {func(r *rig) { r.Change("a", cancel) }, job.Cancelled},
		"a settlement": {func(r *rig) { r.RunOne(job.OutcomeDelivered, 0) }, job.Delivered},
	} {
		t.Run(name, onEachOf([]*backend{sqliteBackend}, func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention)
			r.Add(reg("a", 0))
			resume := r.Pause()
			synctest.Wait()
			var wg sync.WaitGroup
			wg.Go(func() { c.change(r) })
			synctest.Wait() // it waits for the commit
			answers := make(chan job.State, 1)
			wg.Go(func() { answers <- r.Job("a").State })
			wg.Go(func() { r.LogOf("a") })
			synctest.Wait()
			select {
			case s := <-answers:
				t.Errorf("the job was told to be %v before that was committed", s)
			default:
			}
			resume()
			wg.Wait()
			if len(answers) > 0 {
				equal(t, "state", <-answers, c.want)
			}
		}))
	}
}

// TestReadersMayLeave: who asks does not wait longer than it wants to.
func TestReadersMayLeave(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"a change under way":               func(r *rig) { r.Change("a", cancel) },
		"a settlement that is not written": func(r *rig) { r.RunOne(job.OutcomeDelivered, 0) },
	} {
		t.Run(name, onEachOf([]*backend{sqliteBackend}, func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention)
			r.Add(reg("a", 0))
			resume := r.Pause()
			synctest.Wait()
			var wg sync.WaitGroup
			wg.Go(func() { change(r) })
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				if _, err := r.Get(ctx, key("a")); !errors.Is(err, context.Canceled) {
					t.Errorf("Get: %v, want the reason why it was left", err)
				}
			})
			synctest.Wait()
			cancel()
			synctest.Wait()
			resume()
			wg.Wait()
		}))
	}
}
