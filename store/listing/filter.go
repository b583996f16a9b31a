package listing

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// filter is the query of a listing.
type filter struct {
	store.Query
	part store.Part // of the jobs
}

// selectsAll: there is no filter at all.
func (q *filter) selectsAll() bool {
	return q.Topic == "" && len(q.States) == 0 && q.index() == "" && q.IDPrefix == "" && q.UID == "" && q.Order == "" && !q.looksInside()
}

// looksAtEntries reports whether the entries of a segment alone exclude some jobs.
func (q *filter) looksAtEntries() bool { return len(q.States) > 0 || q.IDPrefix != "" }

func (q *filter) wantsEntry(e store.Entry) bool {
	return q.Wants(e.State) && strings.HasPrefix(e.ID, q.IDPrefix)
}

// looksInside: whether a job matches is known only when its record is read.
func (q *filter) looksInside() bool {
	return q.Reason != "" || q.OrderKey != "" || q.Endpoint != "" || q.Dialect != "" || len(q.Labels) > 0 || q.Priority != 0 || q.DueFrom != 0 || q.DueTo != 0 ||
		q.CreatedFrom != 0 || q.CreatedTo != 0 || len(q.Only) > 0 || q.index() != "" && q.Order != "" || q.BizKey != "" && q.GroupID != ""
}

// index is the index by name that has the jobs of q, or empty.
func (q *filter) index() string {
	switch {
	case q.IndexedID != "":
		return GroupIndex(job.IDIndex(q.IndexedID))
	case q.GroupID != "":
		return GroupIndex(q.GroupID)
	}
	return q.BizKey
}

// kinds are the segments in which jobs can match q.
func (q *filter) kinds() []store.IndexKind {
	switch {
	case q.UID != "":
		return []store.IndexKind{store.IndexUID}
	case q.index() != "" && q.Order == "":
		return []store.IndexKind{store.IndexNamed}
	}
	holds := map[store.IndexKind]bool{}
	for _, s := range job.States {
		if !q.Wants(s) || q.Reason != "" && !s.Final() {
			continue
		}
		switch {
		case s == job.Dead:
			holds[store.IndexDead] = true
		case s.Final():
			holds[store.IndexEnded] = true
		default:
			holds[store.IndexLane] = true
		}
	}
	kinds := []store.IndexKind{store.IndexLane, store.IndexDead, store.IndexEnded}
	return slices.DeleteFunc(kinds, func(k store.IndexKind) bool { return !holds[k] })
}

// mayHold reports, by the name of a segment, whether its jobs can match.
func (q *filter) mayHold(seg store.Index) bool {
	if topic, _, _ := strings.Cut(seg.Name, "|"); seg.Kind <= store.IndexEnded && !q.Only.Has(topic) {
		return false
	}
	switch seg.Kind {
	case store.IndexLane:
		if q.Priority != 0 {
			if lane, err := job.ParseLane(seg.Name); err != nil || lane.Priority.Number() != q.Priority {
				return false
			}
		}
		if q.OrderKey != "" {
			if lane, err := job.ParseLane(seg.Name); err != nil || !lane.Ordered {
				return false
			}
		}
		return q.Endpoint == "" || strings.HasSuffix(seg.Name, "|"+q.Endpoint)
	case store.IndexDead:
		return (q.Reason == "" || strings.HasSuffix(seg.Name, "|"+q.Reason)) &&
			(q.Endpoint == "" || strings.Contains(seg.Name, "|"+q.Endpoint+"|"))
	}
	return true
}

// byDue reports whether the waiting jobs of a segment are in the order of the times that the filter bounds.
// Jobs that wait for others of their order key lie behind them.
func (q *filter) byDue(seg store.Index) bool {
	if seg.Kind != store.IndexLane || q.DueFrom == 0 && q.DueTo == 0 {
		return false
	}
	lane, err := job.ParseLane(seg.Name)
	return err == nil && !lane.Ordered
}

// dueFrom is where the waiting jobs within the bounds begin; dueTo is where they end.
func (q *filter) dueFrom() *store.Position { return &store.Position{Score: float64(q.DueFrom)} }
func (q *filter) dueTo() *store.Position   { return &store.Position{Score: float64(q.DueTo)} }

// cutDue leaves the entries of a lane for which byDue is true that may be within the bounds. With next, the others are
// behind that; last is whether no others follow.
func (q *filter) cutDue(entries []store.Entry, last bool) (some []store.Entry, next *store.Position, none bool) {
	for i, e := range entries {
		switch waits := e.State == job.Waiting || e.State == job.Retrying; {
		case waits && e.Score < float64(q.DueFrom):
			return entries[:i], q.dueFrom(), false
		case waits && q.DueTo != 0 && e.Score >= float64(q.DueTo):
			return entries[:i], nil, true
		}
	}
	return entries, nil, last
}

// digest identifies a filter, so that a cursor works with its own filter only. It is
// empty for no filter.
func (q *filter) digest() (string, error) {
	same := *q
	same.Limit, same.Cursor = 0, ""
	same.States = slices.Compact(slices.Sorted(slices.Values(q.States)))
	same.Labels = slices.Clone(q.Labels)
	slices.SortFunc(same.Labels, func(a, b job.Label) int {
		return strings.Compare(a.Key+":"+a.Value, b.Key+":"+b.Value)
	})
	if same.selectsAll() {
		return "", nil
	}
	text, err := json.Marshal(same.Query)
	if err != nil {
		return "", fmt.Errorf("encode filter: %w", err)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:9]), nil
}
