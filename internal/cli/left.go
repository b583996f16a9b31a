package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
)

// exported is a line of an export: a registration, and what no registration has. A line without a
// registration is the last one, with what stays behind.
type exported struct {
	client.Registration
	Export *exportNote `json:"export,omitempty"`
}

// exportNote is what an export knows of a job, or of all.
type exportNote struct {
	ExpiresAt time.Time        `json:"expires_at,omitzero"` // the end of the ttl
	Paused    bool             `json:"paused,omitempty"`    // deliveries of the topic are
	Attempts  int              `json:"attempts,omitempty"`  // that were made
	Counted   int64            `json:"counted,omitempty"`
	LeftOut   map[string]int64 `json:"left_out,omitempty"` // by kind
}

// Kinds of what an export leaves out.
const (
	leftAttempts  = "jobs with attempts"
	leftCounts    = "jobs with counts"
	leftDead      = "dead letters"
	leftSettings  = "topics with settings or limits"
	leftPauses    = "paused topics"
	leftSchedules = "schedules"
	leftGroups    = "groups"
	leftRules     = "alert rules"
	leftExpired   = "jobs whose ttl has ended"
)

// left is what an export leaves out.
type left struct {
	paused map[string]bool // of topics that had jobs
	counts map[string]int64
}

func newLeft() *left { return &left{map[string]bool{}, map[string]int64{}} }

// note is what the line of a job has beside its registration, nil if nothing.
func (l *left) note(j *client.Job) *exportNote {
	n := exportNote{Paused: l.paused[j.Topic], Attempts: j.Attempts}
	if j.Count != nil {
		n.Counted = j.Count.Count
	}
	if !n.Paused && n.Attempts == 0 && n.Counted == 0 {
		return nil
	}
	return &n
}

func (l *left) add(kind string, n int64) {
	if n > 0 {
		l.counts[kind] += n
	}
}

// String is "3 schedules, 2 groups".
func (l *left) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(l.counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", l.counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// look notes whether the deliveries of a topic are paused.
func (l *left) look(ctx context.Context, c *client.Client, topic string) error {
	if _, known := l.paused[topic]; known {
		return nil
	}
	t, err := c.Topic(ctx, topic)
	if err != nil && !errors.Is(err, client.ErrTopicNotFound) {
		return err
	}
	l.paused[topic] = t.Paused != nil
	return nil
}

// leave counts what an export leaves out, says so, and writes it into the last line.
func (a *app) leave(ctx context.Context, out *left) error {
	for t, err := range a.client.Topics(ctx, client.TopicQuery{}) {
		if err != nil {
			return err
		}
		out.add(leftDead, t.States[client.StateDead])
		if t.Settings != nil || t.Limits != nil {
			out.add(leftSettings, 1)
		}
		if t.Paused != nil {
			out.add(leftPauses, 1)
		}
	}
	err := errors.Join(
		tally(out, leftSchedules, a.client.Schedules(ctx, client.ScheduleQuery{})),
		tally(out, leftGroups, a.client.Groups(ctx, client.Paging{})),
		tally(out, leftRules, a.client.Rules(ctx, client.Paging{})))
	if err != nil {
		return err
	}
	if len(out.counts) == 0 {
		return nil
	}
	behind := maps.Clone(out.counts)
	delete(behind, leftAttempts) // which the lines of the jobs say
	delete(behind, leftCounts)
	line, err := json.Marshal(map[string]exportNote{"export": {LeftOut: behind}})
	if err == nil && len(behind) > 0 {
		_, err = fmt.Fprintf(a.Out, "%s\n", line)
	}
	a.hint("not exported: %s\n", out)
	return err
}

// tally counts a list. A key that may not see it leaves nothing of it out.
func tally[T any](out *left, kind string, list iter.Seq2[T, error]) error {
	n := int64(0)
	for _, err := range list {
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == 403 {
			break
		}
		if err != nil {
			return err
		}
		n++
	}
	out.add(kind, n)
	return nil
}

// take puts what an export noted of a job into its registration.
func (l *loading) take(ctx context.Context, j *importer.Job, note *exportNote) error {
	r := &j.Registration
	for kind, n := range note.LeftOut {
		l.left.add(kind, n)
		j.Empty = true
	}
	if j.Empty {
		return nil
	}
	if !note.ExpiresAt.IsZero() {
		rest := note.ExpiresAt.Sub(l.a.Clock.Now()).Truncate(time.Millisecond)
		if rest <= 0 {
			l.left.add(leftExpired, 1)
			j.Empty = true
			return nil
		}
		r.TTL = client.Duration(rest)
	}
	if note.Paused && !l.unpaused {
		if err := l.left.look(ctx, l.a.client, r.Topic); err != nil {
			return err
		}
		if !l.left.paused[r.Topic] {
			j.Err = fmt.Errorf("deliveries of topic %s were paused, and are not paused here: run duehook topic pause %s --new first, or import with --unpaused", r.Topic, r.Topic)
			return nil
		}
	}
	if note.Attempts > 0 {
		l.left.add(leftAttempts, 1)
	}
	if note.Counted > 0 {
		l.left.add(leftCounts, 1)
	}
	return nil
}
