package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/redisstore"
)

// node opens a ledger as one of several nodes on a Redis.
func node(t testing.TB, b *backend, redisURL, namespace, url string, alter ...with) *rig {
	t.Helper()
	inner, err := redisstore.Open(t.Context(), redisstore.Options{URL: redisURL, Namespace: namespace, Retention: retention})
	noError(t, "open Redis", err)
	r, err := tryRig(t, b, url, retention, append([]with{func(o *options) { o.Store = inner }}, alter...)...)
	noError(t, "Open", err)
	return r
}

// written is what of a job the ledger must agree with the store about.
type ledgered struct {
	UID                              string
	State                            job.State
	Attempts, Snoozes, ExpiredLeases int
	Version, Token                   uint64
	Created, Due, Next, Ended        job.Instant
	Cancel                           bool
	Reason                           string
}

func ledgeredOf(j job.Job) ledgered {
	state := j.State
	if state == job.Ready {
		state = j.Pending()
	}
	return ledgered{
		UID: j.UID, State: state, Attempts: j.Attempts, Snoozes: j.Snoozes, ExpiredLeases: j.ExpiredLeases, Version: j.Version, Token: j.Token,
		Created: j.CreatedAt, Due: j.DueAt, Next: j.NextAt, Ended: j.EndedAt, Cancel: j.CancelRequested, Reason: j.Reason,
	}
}

// agree fails the test unless the ledger has every job as the store has it,
// and nothing that may be restored besides.
func (r *rig) agree(but ...cmp.Option) {
	r.T.Helper()
	want := map[string]ledgered{}
	for k, j := range r.All() {
		want[k] = ledgeredOf(j.Job)
	}
	got, open := r.ledger(want)
	if diff := cmp.Diff(want, got, append(but, cmpopts.EquateEmpty())...); diff != "" {
		r.T.Errorf("the ledger (-store +ledger):\n%s", diff)
	}
	for k, n := range open {
		if j, ok := want[k]; !ok || n > 1 || j.State.Final() && j.State != job.Dead {
			r.T.Errorf("%d messages of %s may be restored; the store has %+v", n, k, j)
		}
	}
}

// ledger gives the messages of the jobs of want, by key, and how many there are
// that may be restored.
func (r *rig) ledger(want map[string]ledgered) (got map[string]ledgered, open map[string]int) {
	r.T.Helper()
	db, err := r.B.Open(r.URL)
	noError(r.T, "open", err)
	defer db.Close()
	rows, err := db.QueryContext(r.T.Context(), `SELECT topic, id, uid, status, attempts, snoozes, expired_leases, version, token,
		created, due, next_at, ended_at, cancel, reason, CASE WHEN done_at IS NULL THEN 1 ELSE 0 END FROM message`)
	noError(r.T, "read the ledger", err)
	defer rows.Close()
	got, open = map[string]ledgered{}, map[string]int{}
	for rows.Next() {
		var k job.Key
		var j ledgered
		var isOpen int
		noError(r.T, "Scan", rows.Scan(&k.Topic, &k.ID, &j.UID, &j.State, &j.Attempts, &j.Snoozes, &j.ExpiredLeases, &j.Version, &j.Token,
			&j.Created, &j.Due, &j.Next, &j.Ended, &j.Cancel, &j.Reason, &isOpen))
		if isOpen == 1 {
			open[k.String()]++
		}
		if want[k.String()].UID == j.UID {
			got[k.String()] = j
		}
	}
	noError(r.T, "read the ledger", rows.Err())
	return got, open
}

// nodeStep makes a random call on a node, with keys that all nodes use.
func (r *rig) nodeStep(random *rand.Rand) {
	r.T.Helper()
	ctx := r.T.Context()
	id := fmt.Sprint("k", random.IntN(8))
	var err error
	switch random.IntN(8) {
	case 0, 1, 2:
		g := reg(id, time.Duration(random.IntN(3))*20*time.Millisecond)
		g.UID = uid(random)
		g.OnConflict = job.OnConflicts[random.IntN(5)]
		g.Spec.Body = fmt.Append(nil, random.IntN(3))
		err = register(ctx, r, g)
	case 3:
		change := []func(*job.Job, job.Instant) error{
			cancel, replay, runAt(job.When{Delay: 20 * time.Millisecond}), runAt(job.When{}),
		}[random.IntN(4)]
		_, _ = r.Update(ctx, key(id), change) // which the job may refuse
	default:
		var settlements []job.Settlement
		for _, c := range r.takeAny(ctx) {
			kind := []job.OutcomeKind{job.OutcomeDelivered, job.OutcomeFailed, job.OutcomeFailed, job.OutcomeSnoozed}[random.IntN(4)]
			settlements = append(settlements, settlement(c, kind, time.Duration(random.IntN(3)-1)*20*time.Millisecond))
		}
		_, err = r.Settle(ctx, settlements)
	}
	// A conflict that lasts is for the client to come back with.
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		r.T.Errorf("%s: %v", id, err)
	}
}

// uid is a ULID of its own.
func uid(random *rand.Rand) string { return fmt.Sprintf("01%024d", random.Uint64()) }

// takeAny carries and claims a few jobs.
func (r *rig) takeAny(ctx context.Context) []store.Claimed {
	r.T.Helper()
	_, err := r.Carry(ctx, 0, store.CarryOptions{Cap: 10, Visibility: 50 * time.Millisecond, By: "carrier"})
	noError(r.T, "Carry", err)
	lease := r.lease
	if lease == 0 {
		lease = time.Minute
	}
	hints, err := r.Pop(ctx, 0, 10, 2*time.Millisecond)
	noError(r.T, "Pop", err)
	claims, err := claimAtLast(ctx, r.Store, hints, store.ClaimOptions{Nonce: newName(), Lease: lease, By: "worker"})
	noError(r.T, "Claim", err)
	return claims
}

// claimAtLast claims as dispatchers do, which repeat a claim while the ledger takes long to answer.
func claimAtLast(ctx context.Context, s *ledger.Store, hints []store.Hint, o store.ClaimOptions) (claims []store.Claimed, err error) {
	for {
		if claims, err = s.Claim(ctx, 0, hints, o); !errors.Is(err, store.ErrLedgerDown) || ctx.Err() != nil {
			return claims, err
		}
	}
}

// Two nodes with several callers each make random calls about the same few
// jobs. When all is quiet, the ledger has every job as the
// store has it.
func TestRaceTwoNodes(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for _, b := range servers {
		for range 3 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s,seed=%d", b.Name, seed), func(t *testing.T) {
				t.Parallel()
				url, namespace := b.Fresh(t), newName()
				nodes := []*rig{node(t, b, redis.URL(), namespace, url), node(t, b, redis.URL(), namespace, url)}
				const callers, steps = 4, 40
				var wg sync.WaitGroup
				for n := range callers * len(nodes) {
					random := rand.New(rand.NewPCG(seed, uint64(n)))
					wg.Go(func() {
						for range steps {
							nodes[n%len(nodes)].nodeStep(random)
						}
					})
				}
				wg.Wait()
				for _, r := range nodes {
					noError(t, "Flush", r.Flush())
				}
				nodes[0].agree()
			})
		}
	}
}
