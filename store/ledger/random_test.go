package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
)

// step makes a random call.
func step(r *rig, choose func(n int) int) {
	r.T.Helper()
	id := fmt.Sprint("k", choose(6))
	delay := time.Duration(choose(120)) * time.Second
	ctx := r.T.Context()
	switch choose(9) {
	case 0, 1:
		g := reg(id, delay)
		g.OnConflict = job.OnConflicts[choose(5)]
		g.Spec.Body = fmt.Append(nil, choose(2))
		if choose(3) == 0 {
			g.Spec.TTL = time.Minute
		}
		err := register(ctx, r, g, reg("x"+id, delay))
		noError(r.T, "Register", err)
	case 2:
		change := []func(*job.Job, job.Instant) error{
			cancel, replay, runAt(job.When{Delay: delay}), runAt(job.When{}),
			func(j *job.Job, _ job.Instant) error { return j.Respecify(reg(id, delay).Spec) },
		}[choose(5)]
		_, _ = r.Update(ctx, key(id), change) // which the job may refuse
	case 3, 4, 5:
		claims := r.TakeDue()
		var settlements []job.Settlement
		for _, c := range claims {
			kind := job.OutcomeKind(choose(10))
			if kind > job.OutcomeLeaseExpired {
				continue // it stays in flight
			}
			retry := time.Duration(choose(60)-1) * time.Second
			settlements = append(settlements, settlement(c, kind, retry))
		}
		_, err := r.Settle(ctx, settlements)
		noError(r.T, "Settle", err)
	case 6:
		r.Pass(delay)
	case 7:
		r.PurgeSome(1 + choose(3))
	case 8:
		time.AfterFunc(time.Millisecond, r.Pause()) // when everybody waits
	}
}

// restartLosesNothing compares the unfinished jobs and dead letters with those of a node that
// was started after this one was killed and the store lost everything.
func restartLosesNothing(r *rig) {
	r.T.Helper()
	r.PurgeSome(1000)
	noError(r.T, "Flush", r.Flush())
	want := r.All()
	for k, j := range want {
		if s := j.Job.State; s.Final() && s != job.Dead {
			delete(want, k)
			continue
		}
		switch j.Job.State {
		case job.Running:
			j.Job.ExpiredLeases++
			j.Job.State = j.Job.Pending()
		case job.Ready:
			j.Job.State = j.Job.Pending()
		}
		want[k] = j
	}
	crashed := r.Crash()
	equal(r.T, "the jobs", crashed.All(), want)
	equal(r.T, "keys with more than one message that may be restored",
		r.Count(`SELECT count(*) FROM (SELECT 1 FROM message WHERE done_at IS NULL GROUP BY topic, id HAVING count(*) > 1) AS k`), "0")
	noError(r.T, "Close", crashed.Close())
}

// TestRandomCallsOfOne makes random calls by one caller. `make test` runs it without the
// race detector.
func TestRandomCallsOfOne(t *testing.T) { randomCalls(t, 1, 30, 3) }

// TestRaceRandomCallsOfSeveral makes random calls by several callers side by side: the ledger
// must get the changes of a job in the order in which the store made them.
func TestRaceRandomCallsOfSeveral(t *testing.T) { randomCalls(t, 8, 15, 4) }

func randomCalls(t *testing.T, callers, steps, runs int) {
	t.Helper()
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), onServers(func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention)
			for range 2 {
				var wg sync.WaitGroup
				for n := range callers {
					random := rand.New(rand.NewPCG(seed, uint64(n)))
					wg.Go(func() {
						for range steps {
							step(r, random.IntN)
						}
					})
				}
				wg.Wait()
				restartLosesNothing(r)
			}
		}))
	}
}
