package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// history is everything that happened in a world: each change that a store
// made, in their order, each request, and a trace of it all for people.
type history struct {
	start time.Time

	mu       sync.Mutex
	changes  []change
	claims   map[claimID]*claim
	requests []*request
	lines    []line
	counts   map[string]int
	limits   map[string][]limit // of topics, in the order in which they were set
	takes    int                // calls of Take
	carries  []carried
	uids     map[string]string // uid to a name that is the same in each run
	clients  []*client
}

// line is one of the trace.
type line struct {
	at   time.Duration
	text string
}

// change is one change that the store made; one of its parts is set.
type change struct {
	life    *life
	at      time.Duration
	key     job.Key
	uid     string
	birth   *job.Job
	claim   *claim
	settle  *settlement
	update  *update
	counted *store.Counted
}

type claimID struct {
	key   job.Key
	token uint64
}

// claim is a job that was claimed, and what came of that.
type claim struct {
	store.Claimed
	life    *life
	lease   job.Instant // its end
	nonce   string
	at      time.Duration
	request *request
	refused int // connections of the attempt that were refused
	settled *settlement
	lost    bool // the answer with it did not arrive
}

// settlement is one that the store applied.
type settlement struct {
	job.Settlement
	done store.Settled
}

// update is a change made with store.Update.
type update struct {
	before, after job.Job
	now           job.Instant
}

func newHistory(start time.Time) *history {
	return &history{start: start, claims: map[claimID]*claim{}, counts: map[string]int{}, limits: map[string][]limit{}, uids: map[string]string{}}
}

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line(fmt.Sprintf(format, args...))
}

// line adds one to the trace. h.mu is held.
func (h *history) line(text string) {
	h.lines = append(h.lines, line{clock.Now().Sub(h.start), text})
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// hash is the same for two runs in which the same happened at the same times.
// What happened at one time has no order.
func (h *history) hash() uint64 {
	h.sort()
	sum := fnv.New64a()
	for _, l := range h.lines {
		_, _ = fmt.Fprintln(sum, int64(l.at), l.text)
	}
	return sum.Sum64()
}

func (h *history) sort() {
	slices.SortStableFunc(h.lines, func(a, b line) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.text, b.text)
	})
}

// trace is the trace of one job, or of everything.
func (h *history) trace(about string) string {
	h.sort()
	var b strings.Builder
	for _, l := range h.lines {
		if strings.Contains(l.text, about) {
			_, _ = fmt.Fprintf(&b, "%14v %s\n", l.at, l.text)
		}
	}
	return b.String()
}

// recorder is a store that writes down what it changed.
type recorder struct {
	store.Store
	life *life
	took []*claim
}

func (r *recorder) history() *history { return r.life.n.w.history }

func (r *recorder) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	done, err := r.Store.Register(ctx, regs)
	h := r.history()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range done {
		if j := &done[i].Job; done[i].Outcome == store.Created {
			h.uids[j.UID] = fmt.Sprintf("%s~%d", j.Key, len(h.changes))
			h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: j.Key, uid: j.UID, birth: j})
			h.line(fmt.Sprintf("%s registered %s due %d", r.life.name, j.Key, j.DueAt))
		}
	}
	return done, err
}

func (r *recorder) Update(ctx context.Context, key job.Key, alter func(*job.Job, job.Instant) error) (job.Job, error) {
	u := &update{}
	after, err := r.Store.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		u.before, u.now = *j, now
		return alter(j, now)
	})
	if err != nil {
		return after, err
	}
	u.after = after
	h := r.history()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: key, uid: after.UID, update: u})
	for _, j := range successorsOf(successors.Of(after.UID, after.Ended(u.before.State, job.ShedNothing)), after.EndedAt) {
		h.uids[j.UID] = fmt.Sprintf("%s~%d", j.Key, len(h.changes))
		h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: j.Key, uid: j.UID, birth: &j})
	}
	h.line(fmt.Sprintf("%s updated %s to %v next %d", r.life.name, key, after.State, after.NextAt))
	return after, nil
}

func (r *recorder) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	done, err := r.Store.Count(ctx, c)
	if err != nil || len(done.Tally.Added) == 0 {
		return done, err
	}
	h := r.history()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: c.Key, uid: done.Job.UID, counted: &done})
	h.line(fmt.Sprintf("%s counted %s to %d due %v", r.life.name, c.Key, done.Tally.Count, done.Tally.Due))
	return done, nil
}

// Take is that of a store without a ready list: what it takes counts as carried, too.
func (r *recorder) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	done, err := r.Store.Take(ctx, shard, o)
	r.life.n.w.sleep(time.Nanosecond) // the call that freed a place may not have been written down yet
	c := carried{at: r.life.n.w.now()}
	for i := range done.Claims {
		taken := &done.Claims[i]
		c.jobs = append(c.jobs, store.Carried{Hint: store.Hint{Lane: taken.Job.Lane(), ID: taken.Job.ID}, From: taken.From})
	}
	h := r.history()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carries = append(h.carries, c)
	h.takes++
	r.claimed(done.Claims, o.Lease, o.LeaseMargin, fmt.Sprint(h.takes))
	return done, err
}

// readyList is a store with a ready list.
type readyList interface {
	store.ReadyList
	Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error)
	Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error)
	Return(ctx context.Context, shard int, hints []store.Hint) error
}

func (r *recorder) list() readyList { return r.Store.(readyList) }

func (r *recorder) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	done, err := r.list().Carry(ctx, shard, o)
	h := r.history()
	for i := range done.Carried {
		c := &done.Carried[i]
		h.note("%s carried %s from %v", r.life.name, c.Hint.Key(), c.From)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carries = append(h.carries, carried{at: r.life.n.w.now(), jobs: done.Carried})
	return done, err
}

func (r *recorder) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	done, err := r.list().Claim(ctx, shard, hints, o)
	h := r.history()
	h.mu.Lock()
	defer h.mu.Unlock()
	r.claimed(done, o.Lease, o.LeaseMargin, o.Nonce)
	return done, err
}

// claimed notes claims. h.mu is held.
func (r *recorder) claimed(claims []store.Claimed, lease, margin time.Duration, nonce string) {
	h := r.history()
	for i := range claims {
		j := &claims[i].Job
		id := claimID{j.Key, j.Token}
		if _, again := h.claims[id]; again {
			continue
		}
		lasts := lease
		if j.Spec.Timeout > 0 {
			lasts = j.Spec.Timeout + margin
		}
		c := &claim{Claimed: claims[i], life: r.life, lease: claims[i].Now.Add(lasts), nonce: nonce, at: clock.Now().Sub(h.start)}
		h.claims[id] = c
		r.took = append(r.took, c)
		h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: j.Key, uid: j.UID, claim: c})
		h.line(fmt.Sprintf("%s claimed %s from %v attempts %d", r.life.name, j.Key, c.From, j.Attempts))
	}
}

func (r *recorder) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	done, err := r.Store.Settle(ctx, settlements)
	h := r.history()
	if err != nil {
		h.note("%s cannot settle %s: %v", r.life.name, settlements[0].Key, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range done {
		s := &settlement{settlements[i], done[i]}
		h.line(fmt.Sprintf("%s settled %s as %v: %d", r.life.name, s.Key, s.To, s.done.Status))
		switch {
		case s.done.Status == store.Stale:
			h.counts["stale settlements"]++
		case s.done.Status == store.Applied && !s.done.Repeated:
			h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: s.Key, settle: s})
			for _, j := range followers(&settlements[i], &done[i]) {
				h.uids[j.UID] = fmt.Sprintf("%s~%d", j.Key, len(h.changes))
				h.changes = append(h.changes, change{life: r.life, at: r.life.n.w.now(), key: j.Key, uid: j.UID, birth: &j})
			}
		}
	}
	return done, err
}

// followers are the jobs that followed from an applied settlement, as the store registered them.
func followers(s *job.Settlement, r *store.Settled) []job.Job {
	if s.Job == nil || r.Status != store.Applied {
		return nil
	}
	return successorsOf(successors.Of(s.Job.UID, s.Successors(r.Change(s), r.Version, r.Shed)), r.Now)
}

func successorsOf(regs []store.Registration, now job.Instant) []job.Job {
	jobs := make([]job.Job, len(regs))
	for i := range regs {
		jobs[i] = regs[i].Job(now)
	}
	return jobs
}
