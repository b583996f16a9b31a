package schedules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
)

// Draft is a schedule as a client asks for it. A nil field was not given.
type Draft struct {
	Cron, Timezone         *string
	Every, Jitter          *time.Duration
	Anchor, StartAt, EndAt *time.Time
	Gap, Repeat            *string
	MaxOccurrences         *int64
	Policy, Overlap        *string
	Grace                  *time.Duration
	Paused                 *bool
	Note                   *string
	ExceptDates            []string
	Job                    *job.Draft
	Topics                 job.TopicSet // that the caller may use
}

const (
	// MaxName is the most bytes of a schedule's name.
	MaxName         = 96
	maxOccurrences  = 1_000_000_000
	maxGrace        = time.Hour
	defaultGrace    = time.Minute
	maxDates        = 100 // of except
	maxSkips        = 100
	descriptorEvery = "@every "
)

// CheckName checks the name of a schedule.
func CheckName(name string) error {
	err := job.CheckName(name)
	if err == nil && len(name) > MaxName {
		err = fmt.Errorf("must have at most %d bytes", MaxName)
	}
	if err != nil {
		return job.Invalid("schedule", err.Error())
	}
	return nil
}

// orZero is the value of a field, or the zero value of an absent one.
func orZero[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}

func oneOf[T ~string](f *job.Findings, field job.Field, s *string, otherwise T, all ...T) T {
	if s == nil {
		return otherwise
	}
	names := make([]string, len(all))
	for i, v := range all {
		if string(v) == *s {
			return v
		}
		names[i] = string(v)
	}
	f.Add(field, "must be one of "+strings.Join(names, ", "))
	return otherwise
}

// definition reads everything of a draft but its job, and what follows from it for a
// schedule of the name.
func (d *Draft) definition(name string) (Definition, *schedule.Rules, error) {
	var f job.Findings
	def := Definition{
		Spec: d.spec(&f),
		Misfire: schedule.Misfire{
			Policy: oneOf(&f, "misfire.policy", d.Policy, schedule.FireOnce, schedule.FireOnce, schedule.SkipLate, schedule.FireAll),
			Grace:  f.Duration("misfire.grace", d.Grace, defaultGrace, time.Second, maxGrace),
		},
		Jitter:  f.Duration("jitter", d.Jitter, 0, 0, schedule.MaxJitter),
		Overlap: oneOf(&f, "overlap", d.Overlap, schedule.Allow, schedule.Allow, schedule.Skip),
		Except:  readDates(&f, "except.dates", d.ExceptDates),
	}
	if d.MaxOccurrences != nil {
		if def.Max = *d.MaxOccurrences; def.Max < 1 || def.Max > maxOccurrences {
			f.Add("max_occurrences", fmt.Sprintf("must be from 1 to %d", maxOccurrences))
		}
	}
	if d.Job != nil && d.Job.Spread != nil {
		def.Job.Spread = d.Job.Spread
		if def.spread() > schedule.MaxJitter {
			f.Add("job.spread", fmt.Sprintf("must be at most %s together with jitter", job.FormatDuration(schedule.MaxJitter)))
		}
	}
	if err := f.Err(); err != nil {
		return def, nil, err
	}
	rules, err := def.rules(name)
	if err != nil {
		return def, nil, err
	}
	if n := rules.Table.Densest(rules.Jitter); n > schedule.MaxPending {
		f.Add("jitter", fmt.Sprintf("spans about %d occurrences, and may span %d: shorten it, or make occurrences rarer", n, schedule.MaxPending))
	}
	return def, rules, f.Err()
}

// readDates reads dates and ranges of dates.
func readDates(f *job.Findings, field job.Field, texts []string) (list []schedule.Dates) {
	if len(texts) > maxDates {
		f.Add(field, fmt.Sprintf("must have at most %d dates and ranges, not %d", maxDates, len(texts)))
		return nil
	}
	for i, text := range texts {
		d, err := schedule.ParseDates(text)
		if at := field.In(strconv.Itoa(i)); f.Check(at, err) && slices.Contains(list, d) {
			f.Add(at, "is given twice")
		}
		list = append(list, d)
	}
	return list
}

// spec reads the timetable, as far as its rules do not need all of it.
func (d *Draft) spec(f *job.Findings) schedule.Spec {
	s := schedule.Spec{
		Cron: orZero(d.Cron), Every: orZero(d.Every), HasEvery: d.Every != nil, Zone: orZero(d.Timezone),
		Anchor: orZero(d.Anchor).UTC(), Start: orZero(d.StartAt).UTC(), End: orZero(d.EndAt).UTC(),
		Gap:    oneOf(f, "dst.gap", d.Gap, "", schedule.Shift, schedule.SkipGap),
		Repeat: oneOf(f, "dst.repeat", d.Repeat, "", schedule.First, schedule.Last, schedule.Both),
	}
	if d.Timezone != nil && s.Zone == "" {
		f.Add("timezone", "must not be empty: write a name such as Europe/Berlin, or leave it out for UTC")
	}
	switch {
	case d.Cron == nil && !s.HasEvery:
		f.Add("cron", "is required, or every: a schedule needs one of them")
	case d.Cron != nil && s.Cron == "":
		f.Add("cron", "must not be empty")
	case !s.HasEvery && strings.HasPrefix(s.Cron, descriptorEvery):
		every, err := job.ParseDuration(strings.TrimSpace(s.Cron[len(descriptorEvery):]))
		if err == nil && (every < schedule.MinEvery || every > schedule.MaxEvery || every%time.Second != 0) {
			err = errors.New("must be whole seconds, from 1s to 366d")
		}
		if err != nil {
			f.Add("cron", "@every: "+err.Error())
		}
		s.Cron, s.Every, s.HasEvery = "", every, true
	}
	return s
}

// checkNote checks pause and note.
func (d *Draft) checkNote() error {
	switch {
	case d.Note == nil:
		return nil
	case d.Paused == nil || !*d.Paused:
		return job.Invalid("note", "belongs to paused: true")
	}
	return (&job.Pause{Note: *d.Note}).Check(0)
}

// Topic is the topic of the jobs.
func (d *Draft) Topic() string {
	if d.Job == nil {
		return job.DefaultTopic
	}
	return topicOf(d.Job)
}
