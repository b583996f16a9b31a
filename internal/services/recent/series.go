package recent

import (
	"context"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
)

const (
	// Own is how many topics, and how many endpoints, have series of their own on a node: the
	// busiest ones.
	Own = 100
	// ownPeriod is how often a busier topic or endpoint may replace another one.
	ownPeriod = time.Hour
)

// Window is a span of time that series cover, in steps of equal length.
type Window struct {
	Name  string
	Step  time.Duration
	Steps int
}

// Windows are the windows of series.
var Windows = [...]Window{{"1h", time.Minute, 60}, {"24h", 15 * time.Minute, 96}}

func (w *Window) slot(at job.Instant) int64 { return int64(at) / w.Step.Milliseconds() }

// The counts of each step of a series.
const (
	countDelivered = iota // attempts that delivered
	countFailed           // attempts that failed
	countDead             // jobs that an attempt made dead letters
	countExpired          // jobs that expired after an attempt
	kinds
)

// kindsOf are what a settled attempt counts as.
func kindsOf(s *job.Settlement) []int {
	switch {
	case s.To == job.Delivered:
		return []int{countDelivered}
	case s.To == job.Dead:
		return []int{countFailed, countDead}
	case s.To == job.Expired:
		return []int{countFailed, countExpired}
	case job.PutOff(s.Reason):
		return nil
	}
	return []int{countFailed}
}

// ring is the counts of the newest steps of a window.
type ring struct {
	kinds  int
	newest int64
	counts []uint32 // those of a step are at its number modulo the number of steps
}

func newRing(steps, kinds int) ring { return ring{kinds: kinds, counts: make([]uint32, steps*kinds)} }

func (r *ring) steps() int64 { return int64(len(r.counts) / r.kinds) }

// at returns the counts of a step; nil if it is too old.
func (r *ring) at(step int64) []uint32 {
	n := r.steps()
	if step <= r.newest-n {
		return nil
	}
	for next := max(r.newest+1, step-n+1); next <= step; next++ {
		clear(r.of(next))
	}
	r.newest = max(r.newest, step)
	return r.of(step)
}

func (r *ring) of(step int64) []uint32 {
	first := int(step%r.steps()) * r.kinds
	return r.counts[first : first+r.kinds]
}

// sheet is the counts of a ring as they are shared: of each kind, from the step First on. A
// kind without any is nil.
type sheet struct {
	First  int64      `json:"t"`
	Counts [][]uint32 `json:"c"`
}

// sheet returns the ring's counts; nil: there are none.
func (r *ring) sheet() *sheet {
	first := max(r.newest-r.steps()+1, 0)
	for first <= r.newest && !slices.ContainsFunc(r.of(first), counted) {
		first++
	}
	if first > r.newest {
		return nil
	}
	s := &sheet{First: first, Counts: make([][]uint32, r.kinds)}
	for kind := range s.Counts {
		all := make([]uint32, 0, r.newest-first+1)
		for step := first; step <= r.newest; step++ {
			all = append(all, r.of(step)[kind])
		}
		if slices.ContainsFunc(all, counted) {
			s.Counts[kind] = all
		}
	}
	return s
}

func counted(n uint32) bool { return n > 0 }

// each passes on the counts of the steps from first on, by their distance from it.
func (s *sheet) each(first int64, steps int, do func(kind, step int, n int64)) {
	if s == nil {
		return
	}
	for kind, counts := range s.Counts {
		for i, n := range counts {
			if step := s.First + int64(i) - first; step >= 0 && step < int64(steps) {
				do(kind, int(step), int64(n))
			}
		}
	}
}

// series are the rings of all windows.
type series [len(Windows)]ring

func newSeries() *series {
	var all series
	for i := range all {
		all[i] = newRing(Windows[i].Steps, kinds)
	}
	return &all
}

func (all *series) add(at job.Instant, as []int) {
	for i := range all {
		if c := all[i].at(Windows[i].slot(at)); c != nil {
			for _, kind := range as {
				c[kind]++
			}
		}
	}
}

// sheets are the sheets of all windows.
type sheets [len(Windows)]*sheet

func (all *series) sheets() (s sheets) {
	for i := range all {
		s[i] = all[i].sheet()
	}
	return s
}

// named are the series of the busiest names.
type named struct {
	names *metered.Busiest
	of    map[string]*series
	// more: some names have no series.
	more bool
}

func newNamed() named {
	return named{names: metered.NewBusiest(Own, ownPeriod), of: map[string]*series{}}
}

func (n *named) add(name string, at job.Instant, as []int) {
	has, lost := n.names.Use(name, at)
	for _, other := range lost {
		delete(n.of, other)
	}
	if !has {
		n.more = true
		return
	}
	if n.of[name] == nil {
		n.of[name] = newSeries()
	}
	n.of[name].add(at, as)
}

// part is the named series as they are shared.
type part struct {
	Own  map[string]sheets `json:"own,omitempty"`
	More bool              `json:"more,omitempty"`
}

func (n *named) part() part {
	p := part{Own: make(map[string]sheets, len(n.of)), More: n.more}
	for name, one := range n.of {
		p.Own[name] = one.sheets()
	}
	return p
}

// charted is the content of the document of a node's series.
type charted struct {
	Latest    job.Instant `json:"at"`
	All       sheets      `json:"all"`
	Topics    part        `json:"topics"`
	Endpoints part        `json:"endpoints"`
}

// Of says whose series to read: those of a topic, of an endpoint, of several topics together,
// or, with none of them, of all jobs.
type Of struct {
	Topic, Endpoint string
	Topics          job.TopicSet
}

func (of *Of) all() bool { return of.Topic == "" && of.Endpoint == "" && len(of.Topics) == 0 }

// from returns the sheets of a node. whole: no others are missing.
func (of Of) from(c *charted) (found []sheets, whole bool) {
	p, name := &c.Topics, of.Topic
	switch {
	case of.Endpoint != "":
		p, name = &c.Endpoints, of.Endpoint
	case of.Topic != "":
	case len(of.Topics) > 0:
		for topic, s := range p.Own {
			if of.Topics.Has(topic) {
				found = append(found, s)
			}
		}
		return found, !p.More
	default:
		return []sheets{c.All}, true
	}
	s, known := p.Own[name]
	return []sheets{s}, known || !p.More
}

// Series is the attempts of all nodes by start, in the steps of a window, including the current one.
type Series struct {
	Window
	From job.Instant // the beginning of the first step
	// Partial: some node gives the topic, one of the topics, or the endpoint no series of its
	// own, since others are busier; its attempts there are missing.
	Partial bool
	// Delivered and Failed count attempts, Dead and Expired the failed attempts after which
	// the job was dead or had expired.
	Delivered, Failed, Dead, Expired []int64
}

// kinds returns the counts by kind.
func (s *Series) kinds() [kinds]*[]int64 {
	return [...]*[]int64{countDelivered: &s.Delivered, countFailed: &s.Failed, countDead: &s.Dead, countExpired: &s.Expired}
}

func (s *Series) add(of *sheet) {
	into := s.kinds()
	of.each(s.slot(s.From), s.Steps, func(kind, step int, n int64) {
		if kind < kinds {
			(*into[kind])[step] += n
		}
	})
}

// Series returns the series of a window, by its place in Windows, that ends now, by the store's
// clock.
func (r *Recorder) Series(ctx context.Context, of Of, window int, now job.Instant) (Series, error) {
	s := Series{Window: Windows[window]}
	s.From = job.Instant((s.slot(now) - int64(s.Steps) + 1) * s.Step.Milliseconds())
	for _, into := range s.kinds() {
		*into = make([]int64, s.Steps)
	}
	if window == 0 && of.all() { // of the same source as Activity
		return s, r.hour(ctx, s.add)
	}
	read := func(c *charted) {
		found, whole := of.from(c)
		s.Partial = s.Partial || !whole
		for i := range found {
			s.add(found[i][window])
		}
	}
	own := r.charted()
	read(&own)
	others, err := r.otherCharts(ctx)
	for i := range others {
		read(&others[i])
	}
	return s, err
}

// otherCharts returns the series of the other nodes, which must not be changed. They are large,
// and may be a few seconds old.
func (r *Recorder) otherCharts(ctx context.Context) ([]charted, error) {
	select {
	case r.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.reading }()
	if now := r.o.Clock.Now(); r.others == nil || !now.Before(r.until) {
		others := []charted{}
		if err := r.charts.Others(ctx, func(c *charted) { others = append(others, *c) }); err != nil {
			return nil, err
		}
		r.others, r.until = others, now.Add(othersFor)
	}
	return r.others, nil
}
