package recent

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/store"
)

const (
	// Each node has a document of either kind.
	hourKind  = "recent"
	chartKind = "activity"

	publishEvery = 10 * time.Second
	publishLimit = 5 * time.Second // at shutdown
	// chartEvery is how often series are published, in publications. They are larger.
	chartEvery = 6
	// tidyEvery is the interval of searches for documents of dead nodes, in publications of series.
	tidyEvery = 10
	hourKept  = (Minutes + 5) * Step // how long a document stays after its last attempt
	chartKept = 25 * time.Hour
	// othersFor is how long the series of other nodes are reused.
	othersFor = 5 * time.Second
	// maxNodes bounds the documents of each kind.
	maxNodes = 64
)

// Options of New.
type Options struct {
	// Documents are shared with other nodes, and keep figures beyond a restart; nil: neither.
	Documents store.Documents
	Clock     job.Clock    // paces publications; nil: the machine's
	Logger    *slog.Logger // nil: none
}

// Recorder counts attempts. It is safe for concurrent use.
type Recorder struct {
	o      Options
	hours  *documents.Exchange[shared]
	charts *documents.Exchange[charted]

	mu        sync.Mutex
	endpoints endpoints
	all       *series // of newAll
	byTopic   named
	byTarget  named
	latest    job.Instant // start of the last attempt
	// Since the last publication:
	changed, chartsChanged bool

	reading chan struct{} // holds a token while a caller reads others; guards the rest
	others  []charted     // the series of the other nodes
	until   time.Time
}

// New returns a Recorder, which shares its counts while Run does.
func New(o Options) *Recorder {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	name := strings.ToLower(rand.Text())
	return &Recorder{
		o: o,
		hours: documents.NewExchange(documents.ExchangeOptions[shared]{
			Documents: o.Documents, Kind: hourKind, Name: name, Latest: func(s *shared) job.Instant { return s.Latest },
			Kept: hourKept, Max: maxNodes, Logger: o.Logger,
		}),
		charts: documents.NewExchange(documents.ExchangeOptions[charted]{
			Documents: o.Documents, Kind: chartKind, Name: name, Latest: func(c *charted) job.Instant { return c.Latest },
			Kept: chartKept, Max: maxNodes, Logger: o.Logger,
		}),
		endpoints: endpoints{}, all: newAll(), byTopic: newNamed(), byTarget: newNamed(), reading: make(chan struct{}, 1),
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
		r.endpoints.add(s)
		at, as := s.Attempt.StartedAt, kindsOf(s)
		r.all.add(at, as)
		r.all.addLateness(at, s.Due)
		r.byTopic.add(s.Lane.Topic, at, as)
		r.byTarget.add(s.Lane.Endpoint, at, as)
		r.latest = max(r.latest, at)
		r.changed, r.chartsChanged = true, true
	}
}

// shared is the content of a document.
type shared struct {
	Latest    job.Instant       `json:"at"`
	Hour      *sheet            `json:"hour,omitempty"`
	Endpoints map[string]Health `json:"endpoints,omitempty"`
}

// Activity returns the activity of the hour before now, by the store's clock.
func (r *Recorder) Activity(ctx context.Context, now job.Instant) (Activity, error) {
	a := newActivity(now)
	return a, r.hour(ctx, a.add)
}

// hour passes on the hours of all nodes, and of this one before its last starts.
func (r *Recorder) hour(ctx context.Context, add func(*sheet)) error {
	r.mu.Lock()
	own := r.all[0].sheet()
	r.mu.Unlock()
	add(own)
	return r.hours.Others(ctx, func(s *shared) { add(s.Hour) })
}

// Health returns the health of recently attempted endpoints.
func (r *Recorder) Health(ctx context.Context) (map[string]Health, error) {
	r.mu.Lock()
	all := r.endpoints.copied()
	r.mu.Unlock()
	err := r.hours.Others(ctx, func(s *shared) { mergeHealth(all, s.Endpoints) })
	return all, err
}

// charted returns the series of this node.
func (r *Recorder) charted() charted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return charted{Latest: r.latest, All: r.all.sheets(), Topics: r.byTopic.part(), Endpoints: r.byTarget.part()}
}

// Run shares the counts until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	if r.o.Documents == nil {
		<-ctx.Done()
		return nil
	}
	published := 0
	for n := 1; job.Sleep(ctx, r.o.Clock, publishEvery) == nil; n++ {
		r.publish(ctx)
		if n%chartEvery != 0 || !r.publishCharts(ctx) {
			continue
		}
		if published%tidyEvery == 0 {
			r.tidy(ctx)
		}
		published++
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishLimit)
	defer cancel()
	r.publish(last)
	r.publishCharts(last)
	return nil
}

// publish writes this node's document if it changed.
func (r *Recorder) publish(ctx context.Context) {
	if !r.take(&r.changed) {
		return
	}
	r.mu.Lock()
	figures := shared{Latest: r.latest, Hour: r.all[0].sheet(), Endpoints: r.endpoints.copied()}
	r.mu.Unlock()
	if !r.hours.Put(ctx, figures) {
		r.again(&r.changed)
	}
}

// publishCharts writes the series of this node if they changed, and reports whether it did.
func (r *Recorder) publishCharts(ctx context.Context) bool {
	if !r.take(&r.chartsChanged) {
		return false
	}
	if !r.charts.Put(ctx, r.charted()) {
		r.again(&r.chartsChanged)
		return false
	}
	return true
}

// take resets a flag, and returns what it was.
func (r *Recorder) take(flag *bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := *flag
	*flag = false
	return was
}

func (r *Recorder) again(flag *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*flag = true
}

// tidy deletes documents of nodes that are dead or make no attempts.
func (r *Recorder) tidy(ctx context.Context) {
	r.mu.Lock()
	now := r.latest
	r.mu.Unlock()
	r.hours.Tidy(ctx, now)
	r.charts.Tidy(ctx, now)
}
