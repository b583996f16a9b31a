package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/redisstore"
)

// sight is a job as it was seen during a run.
type sight struct {
	uid      string
	state    string
	version  uint64
	token    uint64 // zero: the API does not show it
	attempts int
}

const (
	watchEvery = 40 * time.Millisecond
	watchJobs  = 6 // jobs looked at each time
)

// watch looks at random jobs during the run: what only grows must grow, and
// what has ended must stay so, unless its client replays it. What was seen to
// be otherwise comes from the channel, once stop has been called.
func (r *run) watch(ctx context.Context) (wrong <-chan []string, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	found := make(chan []string, 1)
	rnd := rand.New(rand.NewPCG(r.seed, 3))
	look, release := r.eyes()
	go func() {
		defer release()
		w := watcher{seen: map[job.Key]sight{}}
		for job.Sleep(ctx, clock, watchEvery) == nil {
			if r.row.topology != single {
				continue // what no replica has confirmed may be taken back
			}
			for range watchJobs {
				j := r.clients.jobs[rnd.IntN(len(r.clients.jobs))]
				if s, err := look(ctx, j.key()); err == nil {
					w.note(j.key(), s, j.then == replay)
				}
			}
		}
		found <- w.wrong
	}()
	return found, stop
}

// eyes looks into Redis itself, past proxies and nodes, or else asks the API.
func (r *run) eyes() (look func(context.Context, job.Key) (sight, error), release func()) {
	if r.redis == nil {
		return r.ask, func() {}
	}
	s, err := redisstore.Open(r.t.Context(), redisstore.Options{URL: r.url})
	if err != nil {
		r.t.Fatal(err)
	}
	return func(ctx context.Context, key job.Key) (sight, error) {
		j, err := s.Get(ctx, key)
		return sight{j.UID, j.State.String(), j.Version, j.Token, j.Attempts}, err
	}, func() { _ = s.Close() }
}

func (r *run) ask(ctx context.Context, key job.Key) (sight, error) {
	base := r.nodes[0].Base()
	a, err := rig.Call(ctx, "GET", base+"/v1/jobs/"+key.String(), nil, nil)
	if err == nil && a.Status != 200 {
		err = statusError(a.Status)
	}
	var v jobView
	if err == nil {
		err = a.Decode(&v)
	}
	return sight{uid: v.UID, state: v.State, version: v.Version, attempts: v.Attempts}, err
}

type watcher struct {
	seen  map[job.Key]sight
	wrong []string
}

func (w *watcher) note(key job.Key, s sight, replayed bool) {
	before, known := w.seen[key]
	w.seen[key] = s
	if !known {
		return
	}
	ended := !slices.Contains(unfinished, before.state)
	var what string
	switch {
	case s.uid != before.uid:
		what = "became another registration"
	case s.version < before.version:
		what = "went back to an older version"
	case s.token < before.token:
		what = "went back to an older token"
	case s.attempts < before.attempts && !replayed:
		what = "lost attempts"
	case ended && s.state != before.state && !replayed:
		what = "had ended and changed"
	case s.version == before.version && s.attempts != before.attempts:
		what = "changed without a new version"
	}
	if what != "" {
		w.wrong = append(w.wrong, fmt.Sprintf("%s %s: %+v, then %+v", key, what, before, s))
	}
}
