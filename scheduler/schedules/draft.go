package schedules

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
)

// Draft is a schedule as a client asks for it. A nil field was not given.
type Draft struct {
	Cron, Timezone         *string
	Every, Jitter          *time.Duration
	Anchor, StartAt, EndAt *time.Time
	Gap, Repeat            *string
	MaxOccurrences         *int64
	Policy, Overlap        *string
	Grace, Window          *time.Duration
	Limit                  *int
	Paused                 *bool
	Note                   *string
	Job                    *job.Draft
}

const (
	// MaxName is the most bytes of a schedule's name.
	MaxName = 96
	// MaxNote is the most characters of a note.
	MaxNote = 512

	maxOccurrences            = 1_000_000_000
	maxGrace                  = time.Hour
	defaultGrace              = time.Minute
	maxWindow                 = 366 * 24 * time.Hour
	minWindow                 = time.Minute
	defaultLimit, maxLateRuns = 100, 1000
	descriptorEvery           = "@every "
)

// findings gathers what is wrong with a draft.
type findings struct{ fields []job.FieldError }

func (f *findings) add(field job.Field, message string) {
	f.fields = append(f.fields, job.FieldError{Field: field, Message: message})
}

func (f *findings) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	return &job.ValidationError{Fields: f.fields}
}

// CheckName says what is wrong with the name of a schedule.
func CheckName(name string) error {
	err := job.CheckName(name)
	if err == nil && len(name) > MaxName {
		err = fmt.Errorf("must have at most %d bytes", MaxName)
	}
	if err != nil {
		return &job.ValidationError{Fields: []job.FieldError{{Field: "schedule", Message: err.Error()}}}
	}
	return nil
}

func (f *findings) duration(field job.Field, d *time.Duration, least, most, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	if *d < least || *d > most {
		f.add(field, fmt.Sprintf("must be from %s to %s", job.FormatDuration(least), job.FormatDuration(most)))
	}
	return *d
}

func (f *findings) second(field job.Field, at *time.Time) int64 {
	if at == nil {
		return none
	}
	if at.Nanosecond() != 0 {
		f.add(field, "must be a whole second")
	}
	return at.Unix()
}

func oneOf[T ~string](f *findings, field job.Field, s *string, otherwise T, all ...T) T {
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
	f.add(field, "must be one of "+strings.Join(names, ", "))
	return otherwise
}

// definition reads everything of a draft but its job, and what follows from it for a
// schedule of the name.
func (d *Draft) definition(name string) (definition, *schedule.Rules, error) {
	var f findings
	def := definition{
		Start: f.second("start_at", d.StartAt), End: f.second("end_at", d.EndAt), Anchor: f.second("anchor", d.Anchor),
		Jitter:  f.duration("jitter", d.Jitter, 0, schedule.MaxJitter, 0),
		Policy:  oneOf(&f, "misfire.policy", d.Policy, schedule.FireOnce, schedule.FireOnce, schedule.SkipLate, schedule.FireAll),
		Grace:   f.duration("misfire.grace", d.Grace, time.Second, maxGrace, defaultGrace),
		Window:  f.duration("misfire.window", d.Window, minWindow, maxWindow, maxWindow),
		Limit:   defaultLimit,
		Overlap: oneOf(&f, "overlap", d.Overlap, schedule.Allow, schedule.Allow, schedule.Skip, schedule.QueueOne, schedule.Replace),
	}
	if d.Limit != nil {
		if def.Limit = *d.Limit; def.Limit < 1 || def.Limit > maxLateRuns {
			f.add("misfire.limit", fmt.Sprintf("must be from 1 to %d", maxLateRuns))
		}
	}
	if d.MaxOccurrences != nil {
		if def.Max = *d.MaxOccurrences; def.Max < 1 || def.Max > maxOccurrences {
			f.add("max_occurrences", fmt.Sprintf("must be from 1 to %d", maxOccurrences))
		}
	}
	if d.Job != nil && d.Job.Spread != nil {
		def.Job.Spread = d.Job.Spread
		if def.spread() > schedule.MaxJitter {
			f.add("job.spread", fmt.Sprintf("must be at most %s together with jitter", job.FormatDuration(schedule.MaxJitter)))
		}
	}
	def.HasEvery = d.Every != nil
	def.Every = f.duration("every", d.Every, time.Second, schedule.MaxEvery, 0)
	d.texts(&def, &f)
	if len(f.fields) > 0 {
		return def, nil, f.err()
	}
	rules, err := def.rules(name)
	var wrong *schedule.FieldError
	if errors.As(err, &wrong) {
		f.add(job.Field(wrong.Field), wrong.Reason)
		err = f.err()
	}
	return def, rules, err
}

// texts reads the expression, the zone and the rules of daylight saving time.
func (d *Draft) texts(def *definition, f *findings) {
	if d.Timezone != nil {
		if def.Zone = *d.Timezone; def.Zone == "" {
			f.add("timezone", "must not be empty: write a name such as Europe/Berlin, or leave it out for UTC")
		}
	}
	def.Gap = oneOf(f, "dst.gap", d.Gap, "", schedule.Shift, schedule.SkipGap)
	def.Repeat = oneOf(f, "dst.repeat", d.Repeat, "", schedule.First, schedule.Last, schedule.Both)
	switch {
	case d.Cron == nil && !def.HasEvery:
		f.add("cron", "is required, or every: a schedule needs one of them")
	case d.Cron == nil:
	case def.HasEvery:
		f.add("every", "must not be combined with cron: write one of them")
	case strings.HasPrefix(*d.Cron, descriptorEvery):
		every, err := job.ParseDuration(strings.TrimSpace((*d.Cron)[len(descriptorEvery):]))
		if err == nil && (every < time.Second || every > schedule.MaxEvery || every%time.Second != 0) {
			err = errors.New("must be whole seconds, from 1s to 366d")
		}
		if err != nil {
			f.add("cron", "@every: "+err.Error())
		}
		def.Every, def.HasEvery = every, true
	default:
		def.Cron = *d.Cron
		if def.Cron == "" {
			f.add("cron", "must not be empty")
		}
	}
}

// checkNote checks pause and note.
func (d *Draft) checkNote() error {
	switch {
	case d.Note == nil:
		return nil
	case d.Paused == nil || !*d.Paused:
		return invalid("note", "belongs to paused: true")
	}
	return checkNote(*d.Note)
}

func checkNote(note string) error {
	if !utf8.ValidString(note) || utf8.RuneCountInString(note) > MaxNote {
		return invalid("note", fmt.Sprintf("must have at most %d characters", MaxNote))
	}
	return nil
}

func invalid(field job.Field, message string) error {
	return &job.ValidationError{Fields: []job.FieldError{{Field: field, Message: message}}}
}
