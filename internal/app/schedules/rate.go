package schedules

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
)

// topicShare is the part of Options.MaxRate that the schedules of one topic may have: one in so many.
const topicShare = 2

// rates remembers how often the stored schedules occur.
type rates struct {
	mu  sync.Mutex
	all map[string]rate // by name
}

type rate struct {
	version uint64 // of the document
	topic   string
	group   string // of its jobs
	minute  int    // most occurrences of a minute
}

// groupSizes are the numbers of members of groups, as one call reads them.
type groupSizes map[string]int

// jobs is how many jobs some occurrences make: each makes one for each member of its group. A group counts with the members that it
// has now.
func (m *Manager) jobs(ctx context.Context, sizes groupSizes, group string, occurrences int) (int, error) {
	if group == "" {
		return occurrences, nil
	}
	n, known := sizes[group]
	if !known {
		var err error
		if n, err = m.o.Jobs.Members(ctx, group); err != nil {
			return 0, err
		}
		n = max(n, 1)
		sizes[group] = n
	}
	return n * occurrences, nil
}

// admit refuses a definition with which schedules would register more jobs than Options.MaxRate allows: those of
// its topic, or all. One that makes no more than the schedule did before passes. Paused schedules count.
func (m *Manager) admit(ctx context.Context, name string, def *Definition, table *schedule.Timetable) error {
	if m.o.MaxRate == 0 {
		return nil
	}
	before, total, ofTopic, sizes := 0, 0, 0, groupSizes{}
	own, err := m.jobs(ctx, sizes, def.group(), table.Densest(time.Minute))
	if err != nil {
		return err
	}
	r := &m.rates
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[string]rate{}
	for raw, err := range m.docs.From(ctx, "", listAtOnce) {
		if err != nil {
			return err
		}
		one, ok := r.all[raw.Name]
		if !ok || one.version != raw.Version {
			one = rate{version: raw.Version}
			if d := m.docs.Decode(raw); d.Err == nil && d.Value.exists() {
				if t, err := schedule.New(d.Value.Def.Spec); err == nil {
					one.topic, one.group, one.minute = d.Value.Def.Topic(), d.Value.Def.group(), t.Densest(time.Minute)
				}
			}
		}
		known[raw.Name] = one
		made, err := m.jobs(ctx, sizes, one.group, one.minute)
		if err != nil {
			return err
		}
		if raw.Name == name {
			if one.topic == def.Topic() {
				before = made
			}
			continue
		}
		if total += made; one.topic == def.Topic() {
			ofTopic += made
		}
	}
	r.all = known
	field, most := job.Field("cron"), m.o.MaxRate*int(time.Minute/time.Second)
	if table.HasEvery {
		field = "every"
	}
	switch {
	case own <= before:
		return nil
	case ofTopic+own > most/topicShare:
		return job.Invalid(field, fmt.Sprintf("makes up to %d jobs a minute; the other schedules of the topic %s make %d, and %d is the limit for a topic: make occurrences rarer, or raise --schedule-rate",
			own, def.Topic(), ofTopic, most/topicShare))
	case total+own > most:
		return job.Invalid(field, fmt.Sprintf("makes up to %d jobs a minute; all other schedules make %d, and %d is the limit: make occurrences rarer, or raise --schedule-rate", own, total, most))
	}
	return nil
}
