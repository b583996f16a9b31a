// Package walk moves the content of a store to an empty one, of whatever kind. Export writes it as lines of JSON, and Import reads
// them. No node may run on either store meanwhile.
//
// The first line names the walk, and the last one counts it. In between are the documents and the jobs. Nodes set the limits of
// topics, by their documents, before they deliver. While an import lasts, a document of the target names the walk and holds deliveries: so an import that was
// broken off delivers nothing, and only the same walk continues it.
package walk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
	"github.com/duehook/duehook/store/listing"
)

// form is the form of the lines. A walk of another form is not read.
const form = 1

// Head is what the first line says of a walk.
type Head struct {
	ID        string      `json:"id"`
	Form      int         `json:"form"`
	Version   string      `json:"version"` // of duehook
	Store     string      `json:"store"`   // its kind
	Namespace string      `json:"namespace"`
	At        job.Instant `json:"at"` // by the clock of the store
}

// Counts count what walked.
type Counts struct {
	Jobs      map[string]int64 `json:"jobs"`      // by state; unfinished are those that have not ended
	Documents map[string]int64 `json:"documents"` // by kind
	// Left counts what stayed behind, by what it is.
	Left map[string]int64 `json:"left,omitempty"`
}

// Unfinished names the jobs in Counts.Jobs that have not ended.
const Unfinished = "unfinished"

func newCounts() Counts {
	return Counts{Jobs: map[string]int64{}, Documents: map[string]int64{}, Left: map[string]int64{}}
}

func (c *Counts) add(s job.State, n int64) {
	name := s.String()
	if !s.Final() {
		name = Unfinished
	}
	if n != 0 {
		c.Jobs[name] += n
	}
}

// All is the number of jobs.
func (c *Counts) All() (n int64) {
	for _, of := range c.Jobs {
		n += of
	}
	return n
}

// String is "3 dead, 20 unfinished jobs".
func (c *Counts) String() string {
	return named(c.Jobs, "no") + " jobs; " + named(c.Documents, "no") + " documents"
}

// LeftOut is "3 leader, 1 node", or "nothing".
func (c *Counts) LeftOut() string { return named(c.Left, "nothing") }

func named(counts map[string]int64, none string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ", ")
}

// census counts the jobs of a store.
func census(ctx context.Context, s store.Figuring) (Counts, error) {
	d, err := listing.Depth(ctx, s)
	c := newCounts()
	for state, n := range d.States {
		c.add(state, n)
	}
	return c, err
}

// line is one line: one of its members.
type line struct {
	Walk     *Head     `json:"walk,omitempty"`
	Document *document `json:"document,omitempty"`
	Job      *record   `json:"job,omitempty"`
	End      *Counts   `json:"end,omitempty"`
}

type document struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// record is a job, with its content and its log in the form of package encoding.
type record struct {
	Job       job.Job  `json:"job"`
	Spec      []byte   `json:"spec"`
	Log       [][]byte `json:"log,omitempty"`
	CountKeys []string `json:"count_keys,omitempty"`
	Stops     bool     `json:"stops,omitempty"`
}

func recordOf(r *store.Restored) *record {
	is := &record{Job: r.Job, Spec: encoding.AppendSpec(nil, &r.Job.Spec), CountKeys: r.CountKeys, Stops: r.Stops}
	is.Job.Spec, is.Job.LastAttempt = job.Spec{}, nil
	for i := range r.Log {
		is.Log = append(is.Log, encoding.AppendAttempt(nil, &r.Log[i]))
	}
	return is
}

func (r *record) restored() (store.Restored, error) {
	is := store.Restored{Job: r.Job, Log: make([]job.Attempt, len(r.Log)), Aside: store.Aside{CountKeys: r.CountKeys, Stops: r.Stops}}
	if err := encoding.DecodeSpec(r.Spec, &is.Job.Spec); err != nil {
		return is, fmt.Errorf("the job %s: %w", r.Job.Key, err)
	}
	for i, text := range r.Log {
		if err := encoding.DecodeAttempt(text, &is.Log[i]); err != nil {
			return is, fmt.Errorf("the job %s, attempt %d: %w", r.Job.Key, i+1, err)
		}
	}
	if n := len(is.Log); n > 0 {
		is.Job.LastAttempt = &is.Log[n-1]
	}
	return is, nil
}
