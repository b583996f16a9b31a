package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
)

// Query selects jobs; empty fields select all.
type Query struct {
	Topic    string
	States   []job.State // any of them
	BizKey   string
	Endpoint string
	Reason   string      // why the job ended
	Labels   []job.Label // all of them
	Priority int         `json:",omitempty"` // its number
	// DueFrom and DueTo (exclusive) are about when the next attempt is due, or
	// of an ended job, when the first one was.
	DueFrom, DueTo job.Instant
	// CreatedFrom and CreatedTo (exclusive) are about when the job was registered.
	CreatedFrom, CreatedTo job.Instant `json:",omitempty"`
	IDPrefix               string      `json:",omitempty"` // with what the id begins
	// UID selects one job at most, by its uid, which was made by BindUID.
	UID string `json:",omitempty"`

	// Order is that of the jobs; empty for the order that costs least. It needs a topic
	// and one state.
	Order Order `json:",omitempty"`

	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// Matches reports whether the query selects the job.
func (q *Query) Matches(j *job.Job) bool {
	return (q.Topic == "" || q.Topic == j.Topic) && strings.HasPrefix(j.ID, q.IDPrefix) && (q.UID == "" || q.UID == j.UID) &&
		q.wants(j.State) &&
		(q.BizKey == "" || q.BizKey == j.Spec.BizKey) &&
		(q.Reason == "" || q.Reason == j.Reason) &&
		(q.Endpoint == "" || q.Endpoint == j.Lane().Endpoint) &&
		(q.Priority == 0 || q.Priority == j.Spec.Priority.Number()) &&
		j.Spec.HasLabels(q.Labels) && q.within(TimesOf(j))
}

func (q *Query) wants(s job.State) bool { return len(q.States) == 0 || slices.Contains(q.States, s) }

func (q *Query) within(t Times) bool {
	return t.Due >= q.DueFrom && (q.DueTo == 0 || t.Due < q.DueTo) &&
		t.Created >= q.CreatedFrom && (q.CreatedTo == 0 || t.Created < q.CreatedTo)
}

// selectsAll: there is no filter at all.
func (q *Query) selectsAll() bool {
	return q.Topic == "" && len(q.States) == 0 && q.BizKey == "" && q.IDPrefix == "" && q.UID == "" && q.Order == "" && !q.looksInside()
}

// looksAtEntries: entries of a segment tell that some jobs do not match.
func (q *Query) looksAtEntries() bool { return len(q.States) > 0 || q.IDPrefix != "" }

func (q *Query) wantsEntry(e Entry) bool {
	return q.wants(e.State) && strings.HasPrefix(e.ID, q.IDPrefix)
}

// looksInside: whether a job matches is known only when its record is read.
func (q *Query) looksInside() bool {
	return q.Reason != "" || q.Endpoint != "" || len(q.Labels) > 0 || q.Priority != 0 || q.DueFrom != 0 || q.DueTo != 0 ||
		q.CreatedFrom != 0 || q.CreatedTo != 0 || q.BizKey != "" && q.Order != ""
}

// kinds are the segments in which jobs can match q.
func (q *Query) kinds() []SegmentKind {
	switch {
	case q.UID != "":
		return []SegmentKind{SegmentUID}
	case q.BizKey != "" && q.Order == "":
		return []SegmentKind{SegmentBizKey}
	}
	holds := map[SegmentKind]bool{}
	for _, s := range job.States {
		if !q.wants(s) || q.Reason != "" && !s.Final() {
			continue
		}
		switch {
		case s == job.Dead:
			holds[SegmentDead] = true
		case s.Final():
			holds[SegmentEnded] = true
		default:
			holds[SegmentLane] = true
		}
	}
	kinds := []SegmentKind{SegmentLane, SegmentDead, SegmentEnded}
	return slices.DeleteFunc(kinds, func(k SegmentKind) bool { return !holds[k] })
}

// mayHold tells by the name of a segment whether jobs in it can match.
func (q *Query) mayHold(seg Segment) bool {
	switch seg.Kind {
	case SegmentLane:
		if q.Priority != 0 {
			if lane, err := job.ParseLane(seg.Name); err != nil || lane.Priority.Number() != q.Priority {
				return false
			}
		}
		return q.Endpoint == "" || strings.HasSuffix(seg.Name, "|"+q.Endpoint)
	case SegmentDead:
		return (q.Reason == "" || strings.HasSuffix(seg.Name, "|"+q.Reason)) &&
			(q.Endpoint == "" || strings.Contains(seg.Name, "|"+q.Endpoint+"|"))
	}
	return true
}

// digest tells filters apart, so that a cursor is used with its own only. It is
// empty for no filter.
func (q *Query) digest() (string, error) {
	filter := *q
	filter.Limit, filter.Cursor = 0, ""
	filter.States = slices.Compact(slices.Sorted(slices.Values(q.States)))
	filter.Labels = slices.Clone(q.Labels)
	slices.SortFunc(filter.Labels, func(a, b job.Label) int {
		return strings.Compare(a.Key+":"+a.Value, b.Key+":"+b.Value)
	})
	if filter.selectsAll() {
		return "", nil
	}
	text, err := json.Marshal(filter)
	if err != nil {
		return "", fmt.Errorf("encode filter: %w", err)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:9]), nil
}
