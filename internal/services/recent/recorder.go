package recent

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// The kinds of the documents: rows, and how endpoints are.
	rowsKind   = "recent"
	healthKind = "endpoints"

	publishEvery = 10 * time.Second
	publishLimit = 5 * time.Second // on the way out
	// tidyEvery is after how many publications those of dead nodes are looked for.
	tidyEvery = 60
	// keptFor is how long a dead node's documents are kept after its last attempt.
	keptFor = (Minutes + 5) * Step
)

// Options of New.
type Options struct {
	// Documents are shared with the other nodes; nil: there are none.
	Documents store.Documents
	Clock     job.Clock    // paces publications; nil: the machine's
	Logger    *slog.Logger // nil: none
}

// Recorder counts attempts. It is safe for concurrent use.
type Recorder struct {
	o    Options
	name string // of this node's documents
	log  *slog.Logger

	mu        sync.Mutex
	rows      rows
	endpoints endpoints
	latest    job.Instant // the beginning of the last attempt
	changed   bool        // since the last publication

	kinds map[string]*kind
}

// kind is the documents of one kind: of each node its own, by its name.
type kind struct {
	docs  *documents.Collection[shared]
	own   documents.Document[shared] // this node's; Run's only
	beats *leader.Heartbeats         // of unreadable ones; Run's only
}

// New makes a Recorder, which shares what it counts while Run does.
func New(o Options) *Recorder {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Recorder{o: o, name: strings.ToLower(rand.Text()), log: o.Logger, endpoints: endpoints{}, kinds: map[string]*kind{}}
	for _, k := range []string{rowsKind, healthKind} {
		r.kinds[k] = &kind{
			docs:  documents.New(documents.Options[shared]{Store: o.Documents, Kind: k}),
			own:   documents.Document[shared]{Name: r.name},
			beats: leader.NewHeartbeats(o.Clock, keptFor),
		}
	}
	return r
}

// Subscriber counts the attempts that this process settles.
func (r *Recorder) Subscriber() feed.Subscriber { return feed.Subscriber{Settled: r.settled} }

func (r *Recorder) settled(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range outcomes {
		if s.Attempt == nil {
			continue
		}
		r.rows.add(s)
		r.endpoints.add(s)
		r.latest = max(r.latest, s.Attempt.StartedAt)
		r.changed = true
	}
}

// shared is the content of a document.
type shared struct {
	Latest    job.Instant       `json:"at"`
	Rows      []row             `json:"rows,omitempty"`
	Endpoints map[string]Health `json:"endpoints,omitempty"`
}

// Activity is that of the hour before now, by the store's clock.
func (r *Recorder) Activity(ctx context.Context, now job.Instant) (Activity, error) {
	a := newActivity(now)
	r.mu.Lock()
	a.add(r.rows.known())
	r.mu.Unlock()
	err := r.others(ctx, rowsKind, func(s *shared) { a.add(s.Rows) })
	return a, err
}

// Health tells of the endpoints that were attempted lately how they are.
func (r *Recorder) Health(ctx context.Context) (map[string]Health, error) {
	r.mu.Lock()
	all := r.endpoints.copied()
	r.mu.Unlock()
	err := r.others(ctx, healthKind, func(s *shared) { mergeHealth(all, s.Endpoints) })
	return all, err
}

// others reads what other nodes have published.
func (r *Recorder) others(ctx context.Context, kind string, read func(*shared)) error {
	if r.o.Documents == nil {
		return nil
	}
	docs, err := r.kinds[kind].docs.All(ctx)
	if err != nil {
		return err
	}
	for i := range docs {
		switch d := &docs[i]; {
		case d.Name == r.name:
		case d.Err != nil:
			r.log.Debug("a node's figures cannot be read; perhaps it is of another version", "error", d.Err)
		default:
			read(&d.Value)
		}
	}
	return nil
}

// Run shares what is counted until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	if r.o.Documents == nil {
		<-ctx.Done()
		return nil
	}
	for n := 0; job.Sleep(ctx, r.o.Clock, publishEvery) == nil; {
		if !r.publish(ctx) {
			continue
		}
		if n%tidyEvery == 0 {
			r.tidy(ctx)
		}
		n++
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishLimit)
	defer cancel()
	r.publish(last)
	return nil
}

// publish writes this node's documents, and reports whether there was anything
// new and it could.
func (r *Recorder) publish(ctx context.Context) bool {
	r.mu.Lock()
	news := r.changed
	r.changed = false
	figures := shared{Latest: r.latest, Rows: r.rows.known()}
	health := shared{Latest: r.latest, Endpoints: r.endpoints.copied()}
	r.mu.Unlock()
	if !news {
		return false
	}
	if err := errors.Join(r.put(ctx, rowsKind, figures), r.put(ctx, healthKind, health)); err != nil {
		r.log.Debug("what was attempted is not shared", "error", err)
		r.mu.Lock()
		r.changed = true
		r.mu.Unlock()
		return false
	}
	return true
}

func (r *Recorder) put(ctx context.Context, kind string, s shared) error {
	k := r.kinds[kind]
	k.own.Value = s
	err := k.docs.Put(ctx, &k.own)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	// A call that failed wrote it all the same, or it is gone.
	k.own, err = k.docs.Update(ctx, r.name, func(d *documents.Document[shared]) error {
		d.Value = s
		return nil
	})
	return err
}

// tidy deletes what nodes have left that do not run any more, or attempt nothing.
func (r *Recorder) tidy(ctx context.Context) {
	r.mu.Lock()
	old := r.latest.Add(-keptFor)
	r.mu.Unlock()
	for _, k := range r.kinds {
		docs, err := k.docs.All(ctx)
		if err != nil {
			r.log.Debug("figures of other nodes are not tidied up", "error", err)
			return
		}
		unreadable := map[string]uint64{}
		for i := range docs {
			if docs[i].Err != nil {
				unreadable[docs[i].Name] = docs[i].Version
			}
		}
		expired := k.beats.Expired(unreadable)
		for i := range docs {
			d := &docs[i]
			if d.Err == nil && d.Value.Latest >= old || d.Err != nil && !expired[d.Name] {
				continue
			}
			// Whoever was faster, it is gone or new.
			err := k.docs.Delete(ctx, d)
			if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
				r.log.Debug("figures of another node are not tidied up", "error", err)
			}
		}
	}
}
