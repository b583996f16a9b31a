package schedules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
)

// inTopic is a draft for the jobs of a topic.
func inTopic(topic string, d *Draft) *Draft {
	d.Job.Topic = &topic
	return d
}

// What schedules register is bounded, together and for each topic, by their busiest minute.
func TestSchedulesHaveARate(t *testing.T) {
	r := newRig(t, 0)
	m, err := New(Options{Store: r.store, Jobs: r.jobs, ID: "a", MaxRate: 4}) // 240 a minute, 120 of a topic
	r.ok(err)
	other, err := New(Options{Store: r.store, Jobs: r.jobs, ID: "b", MaxRate: 4})
	r.ok(err)
	cron := func(text string) *Draft {
		d := every("1s")
		d.Every, d.Cron = nil, &text
		return d
	}
	set := func(m *Manager, name, topic string, d *Draft, refused string) {
		t.Helper()
		_, _, err := m.Set(r.ctx, name, inTopic(topic, d))
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", name, err, refused)
		}
	}
	set(m, "one", "a", every("1s"), "")
	set(other, "two", "a", cron("* * * * * *"), "")
	set(m, "three", "a", cron("0,30 * * * * *"), "the other schedules of the topic a make 120, and 120 is the limit")
	set(m, "rare", "a", every("1h"), "") // less than once a minute
	set(m, "two", "a", every("1s"), "")  // as often as before
	set(m, "three", "b", every("1s"), "")
	set(other, "four", "c", every("2s"), "")
	set(other, "five", "c", every("1s"), "all other schedules make 210, and 240 is the limit")
	set(m, "four", "c", every("1s"), "")
	set(m, "six", "d", every("1m"), "all other schedules make 240")
	set(m, "one", "b", cron("*/1 * * * * *"), "") // it takes its rate to another topic
	set(m, "seven", "b", every("1m"), "the other schedules of the topic b make 120")
	r.ok(m.Delete(r.ctx, "one"))
	set(other, "six", "d", every("1m"), "")

	free, err := New(Options{Store: r.store, Jobs: r.jobs, ID: "c"})
	r.ok(err)
	for i := range 5 {
		set(free, fmt.Sprint("more-", i), "a", every("1s"), "")
	}
	if _, _, err := m.Set(r.ctx, "more-0", &Draft{Every: every("2s").Every, Job: &job.Draft{Topic: ptr("a"), Destination: ptr(job.Destination("http://receiver.example/"))}}); err != nil {
		t.Errorf("beyond the limit, a schedule cannot be made rarer: %v", err)
	}
}
