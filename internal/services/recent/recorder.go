package recent

import (
	"cmp"
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
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	documentKind = "recent" // each node has a document

	publishEvery = 10 * time.Second
	publishLimit = 5 * time.Second // at shutdown
	// tidyEvery is the interval of searches for documents of dead nodes, in publications.
	tidyEvery = 60
	// keptFor is how long the documents of a dead node stay after its last attempt.
	keptFor = (Minutes + 5) * Step
)

// Options of New.
type Options struct {
	// Documents are shared with other nodes; nil: there are no other nodes.
	Documents store.Documents
	Clock     job.Clock    // paces publications; nil: the machine's
	Logger    *slog.Logger // nil: none
}

// Recorder counts attempts. It is safe for concurrent use.
type Recorder struct {
	o    Options
	docs *documents.Collection[shared]
	name string                     // of this node's document
	own  documents.Document[shared] // Run's only
	log  *slog.Logger

	mu        sync.Mutex
	rows      rows
	endpoints endpoints
	latest    job.Instant // start of the last attempt
	changed   bool        // since the last publication
}

// New returns a Recorder, which shares its counts while Run does.
func New(o Options) *Recorder {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	name := strings.ToLower(rand.Text())
	return &Recorder{
		o: o, docs: documents.New(documents.Options[shared]{Store: o.Documents, Kind: documentKind}),
		name: name, own: documents.Document[shared]{Name: name}, log: o.Logger, endpoints: endpoints{},
	}
}

// Subscriber counts the settled attempts of this process.
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

// Activity returns the activity of the hour before now, by the store's clock.
func (r *Recorder) Activity(ctx context.Context, now job.Instant) (Activity, error) {
	a := newActivity(now)
	r.mu.Lock()
	a.add(r.rows.known())
	r.mu.Unlock()
	err := r.others(ctx, func(s *shared) { a.add(s.Rows) })
	return a, err
}

// Health returns the health of recently attempted endpoints.
func (r *Recorder) Health(ctx context.Context) (map[string]Health, error) {
	r.mu.Lock()
	all := r.endpoints.copied()
	r.mu.Unlock()
	err := r.others(ctx, func(s *shared) { mergeHealth(all, s.Endpoints) })
	return all, err
}

// others reads the documents of other nodes.
func (r *Recorder) others(ctx context.Context, read func(*shared)) error {
	if r.o.Documents == nil {
		return nil
	}
	docs, err := r.docs.All(ctx)
	if err != nil {
		return err
	}
	for i := range docs {
		switch d := &docs[i]; {
		case d.Name == r.name:
		case d.Err != nil:
			r.log.Debug("figures of another node cannot be read; its version may differ", "error", d.Err)
		default:
			read(&d.Value)
		}
	}
	return nil
}

// Run shares the counts until ctx ends.
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

// publish writes this node's document if it changed, and reports whether it did.
func (r *Recorder) publish(ctx context.Context) bool {
	r.mu.Lock()
	news := r.changed
	r.changed = false
	figures := shared{Latest: r.latest, Rows: r.rows.known(), Endpoints: r.endpoints.copied()}
	r.mu.Unlock()
	if !news {
		return false
	}
	if err := r.put(ctx, figures); err != nil {
		r.log.Debug("figures were not sent to other nodes", "error", err)
		r.mu.Lock()
		r.changed = true
		r.mu.Unlock()
		return false
	}
	return true
}

func (r *Recorder) put(ctx context.Context, s shared) error {
	r.own.Value = s
	err := r.docs.Put(ctx, &r.own)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	// An earlier call wrote it although it failed, or the document is gone.
	r.own, err = r.docs.Update(ctx, r.name, func(d *documents.Document[shared]) error {
		d.Value = s
		return nil
	})
	return err
}

// tidy deletes documents of nodes that are dead or make no attempts, and unreadable ones:
// a node that lives writes its own again.
func (r *Recorder) tidy(ctx context.Context) {
	r.mu.Lock()
	old := r.latest.Add(-keptFor)
	r.mu.Unlock()
	docs, err := r.docs.All(ctx)
	if err != nil {
		r.log.Debug("old figures of other nodes cannot be listed", "error", err)
		return
	}
	for i := range docs {
		d := &docs[i]
		if d.Err == nil && d.Value.Latest >= old {
			continue
		}
		// After a conflict the document is gone, or new.
		err := r.docs.Delete(ctx, d)
		if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			r.log.Debug("old figures of another node cannot be deleted", "error", err)
		}
	}
}
