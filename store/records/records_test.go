package records_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
)

func TestClaim(t *testing.T) {
	for name, test := range map[string]struct {
		state job.State
		token uint64
		now   job.Instant
		is    uint64
		prior job.Instant
		lost  int
	}{
		"the first claim":       {job.Waiting, 0, 1000, 1000, 0, 0},
		"the clock went back":   {job.Retrying, 5000, 1000, 5001, 0, 0},
		"after a lease expired": {job.Running, 900, 1000, 1000, 900, 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.Job{State: test.state, Token: test.token, Version: 3, CreatedAt: 2000}
			from, prior := records.Claim(&j, test.now)
			must.Equal(t, "from", from, test.state)
			must.Equal(t, "prior", prior, test.prior)
			must.Equal(t, "token", j.Token, test.is)
			must.Equal(t, "expired leases", j.ExpiredLeases, test.lost)
			must.Equal(t, "state, version", fmt.Sprint(j.State, j.Version), "running 4")
			must.Equal(t, "updated", j.UpdatedAt, max(test.now, 2000))
		})
	}
}

func TestMeets(t *testing.T) {
	for name, test := range map[string]struct {
		state            job.State
		token, settledBy uint64
		to               job.State
		want             records.Settling
	}{
		"the claim runs":                {job.Running, 7, 5, job.Delivered, records.Applies},
		"it extends":                    {job.Running, 7, 0, job.Running, records.Extends},
		"it extends an ended claim":     {job.Cancelled, 7, 0, job.Running, records.Stale},
		"claimed again":                 {job.Running, 8, 0, job.Delivered, records.Stale},
		"settled before":                {job.Delivered, 7, 7, job.Delivered, records.Repeated},
		"an update ended the claim":     {job.Waiting, 7, 0, job.Delivered, records.Stale},
		"an older settlement is stored": {job.Waiting, 7, 5, job.Delivered, records.Stale},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.Job{State: test.state, Token: test.token}
			must.Equal(t, "it", records.Meets(&j, test.settledBy, &job.Settlement{Token: 7, To: test.to}), test.want)
		})
	}
	must.Equal(t, "without a claim", records.Meets(&job.Job{}, 0, &job.Settlement{To: job.Delivered}), records.Stale)
}

func TestSettle(t *testing.T) {
	j := job.Job{UID: "u", State: job.Running, Version: 4, NextAt: 1, CancelRequested: true}
	st := job.Settlement{To: job.Retrying, IfCancelled: job.Cancelled, Attempts: 2, Attempt: &job.Attempt{Number: 2}}
	done := records.Settle(&j, &st, 1000)
	must.Equal(t, "answer", done, store.Settled{Status: store.Applied, To: job.Cancelled, Reason: job.ReasonCancelled, EndedAt: 1000, Now: 1000, UID: "u", Version: 5})
	must.Equal(t, "job", fmt.Sprint(j.State, j.Reason, j.EndedAt, j.NextAt, j.Attempts, j.Version), "cancelledcancelled1000 0 2 5")
	j = job.Job{State: job.Running}
	st.Delay = 1_000_000_000
	done = records.Settle(&j, &st, 1000)
	must.Equal(t, "next", j.NextAt, 2000)
	must.Equal(t, "next of the attempt", records.Attempt(&st, &done).NextAt, 2000)
	must.Equal(t, "the caller's attempt", st.Attempt.NextAt, 0)
}

// memory is the rows of order keys in memory.
type memory struct {
	heads map[string]records.Head
	queue map[string]string // by order key and turn: the id
}

func (m *memory) Head(order string) *records.Head {
	if h, ok := m.heads[order]; ok {
		return &h
	}
	return nil
}

func (m *memory) SetHead(order string, h *records.Head) {
	if delete(m.heads, order); h != nil {
		m.heads[order] = *h
	}
}

func (m *memory) Behind(order, from string) (turn, id string) {
	for _, key := range slices.Sorted(maps.Keys(m.queue)) {
		if key >= order+from {
			return key[len(order):], m.queue[key]
		}
	}
	return "", ""
}

func (m *memory) Queue(order, turn, id string) { m.queue[order+turn] = id }
func (m *memory) Unqueue(order, turn string)   { delete(m.queue, order+turn) }

// Whatever enters, is claimed and ends: the head is the job with the least turn unless it was claimed, all others are parked, and
// nothing is left in the end.
func TestTurns(t *testing.T) {
	const order = "t/k"
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := &memory{map[string]records.Head{}, map[string]string{}}
		turns := records.Turns{Rows: m}
		jobs, parked := map[string]*job.Job{}, map[string]bool{}
		end := func(id string) {
			turns.Leave(order, jobs[id])
			delete(jobs, id)
			delete(parked, id)
			if next := turns.Promote(order); next != "" {
				parked[next] = false
			}
		}
		for n := range 60 {
			h := m.Head(order)
			switch random.IntN(3) {
			case 0:
				j := &job.Job{Key: job.Key{Topic: "t", ID: fmt.Sprint(n)}, UID: fmt.Sprint(n), DueAt: job.Instant(random.IntN(9)), CreatedAt: 1}
				jobs[j.ID] = j
				var displaced string
				if parked[j.ID], displaced = turns.Enter(order, j); displaced != "" {
					parked[displaced] = true
				}
			case 1:
				if h != nil {
					jobs[h.ID].State = job.Running
					turns.Take(order)
				}
			case 2:
				if ids := slices.Sorted(maps.Keys(jobs)); len(ids) > 0 {
					end(ids[random.IntN(len(ids))])
				}
			}
			check(t, turns, order, jobs, parked)
		}
		for len(jobs) > 0 {
			end(m.Head(order).ID)
			check(t, turns, order, jobs, parked)
		}
		must.Equal(t, "rows in the end", len(m.heads)+len(m.queue), 0)
	}
}

func check(t *testing.T, turns records.Turns, order string, jobs map[string]*job.Job, parked map[string]bool) {
	t.Helper()
	h := turns.Head(order)
	if h == nil {
		must.Equal(t, "jobs without a head", len(jobs), 0)
		return
	}
	for id, j := range jobs {
		must.Equal(t, id+" is parked", parked[id], id != h.ID)
		must.Equal(t, id+" is the head", turns.IsHead(order, id), id == h.ID)
		if !turns.HasTurn(order, h.ID) && j.Turn().Compare(jobs[h.ID].Turn()) < 0 {
			t.Fatalf("%s goes before the head %s", id, h.ID)
		}
	}
}

// A dead letter stops its order key, unless another job has the turn.
func TestStop(t *testing.T) {
	m := &memory{map[string]records.Head{}, map[string]string{}}
	turns := records.Turns{Rows: m}
	next, dead := &job.Job{Key: job.Key{ID: "next"}, UID: "2"}, &job.Job{Key: job.Key{ID: "dead"}, UID: "1", State: job.Dead}
	turns.Enter("t/k", next)
	must.Equal(t, "displaced", turns.Stop("t/k", dead), "next")
	must.Equal(t, "the head is the dead letter", turns.HasTurn("t/k", "dead"), true)
	turns.Leave("t/k", dead)
	must.Equal(t, "promoted", turns.Promote("t/k"), "next")
	turns.Take("t/k")
	must.Equal(t, "displaced from a claim", turns.Stop("t/k", dead), "")
	must.Equal(t, "the head is the claimed job", turns.HasTurn("t/k", "next"), true)
	turns.Leave("t/k", next)
	turns.Resume("t/k", dead)
	must.Equal(t, "the head is the replayed job", turns.IsHead("t/k", "dead"), true)
	must.Equal(t, "the topic of an order key", records.TopicOf(records.OrderOf("t", "k/l")), "t")
}
