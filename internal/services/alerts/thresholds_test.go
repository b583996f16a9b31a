package alerts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func TestThresholdsBecomeRules(t *testing.T) {
	all := Thresholds{
		Failures: ptr(5.0), FailureRate: ptr(0.5), DeadLetters: ptr(0.0), Backlog: ptr(100.0), OldestDue: ptr(90 * time.Second),
		Terms: Terms{
			Window: ptr(time.Minute), MinAttempts: ptr(3), For: ptr(time.Second), KeepFiring: ptr(2 * time.Second),
			Repeat: ptr(time.Hour), URL: opsURL,
		},
	}
	rules, err := all.rules("a:b")
	if err != nil {
		t.Fatal(err)
	}
	rule := func(metric Metric, above float64) Rule {
		return Rule{
			Name: "a:b:" + string(metric), Metric: metric, By: ByTotal, Topic: "a:b", Above: above,
			For: time.Second, KeepFiring: 2 * time.Second, Repeat: time.Hour, URL: opsURL,
		}
	}
	failures, rate := rule(Failures, 5), rule(FailureRate, 0.5)
	failures.Window, rate.Window, rate.MinAttempts = time.Minute, time.Minute, 3
	want := []Rule{failures, rate, rule(DeadLetters, 0), rule(OldestDue, 90), rule(BacklogJobs, 100)}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, topic := range map[string]string{"a:b:failures": "a:b", "failures": "", ":x": ""} {
		if got := TopicOf(name); got != topic {
			t.Errorf("%s is of the topic %q", name, got)
		}
	}
}

func TestBadThresholds(t *testing.T) {
	for pointers, bad := range map[string]Thresholds{
		"":                               {Terms: Terms{URL: opsURL}},
		"failure_rate failures":          {Failures: ptr(-1.0), FailureRate: ptr(1.0)},
		"for keep_firing_for repeat url": {DeadLetters: ptr(1.0), Backlog: ptr(1.0), Terms: Terms{For: ptr(48 * time.Hour), KeepFiring: ptr(-time.Second), Repeat: ptr(time.Second), URL: "ftp://x"}},
		"window":                         {DeadLetters: ptr(1.0), Terms: Terms{Window: ptr(time.Minute)}},
		"min_attempts":                   {Failures: ptr(1.0), Terms: Terms{MinAttempts: ptr(3)}},
		"min_attempts oldest_due window": {FailureRate: ptr(0.5), OldestDue: ptr(-time.Second), Terms: Terms{MinAttempts: ptr(0), Window: ptr(time.Second)}},
	} {
		got := pointersOf(t, bad.Check("t"))
		same(t, fmt.Sprintf("wrong with %+v", bad), got, strings.Split(pointers, " "))
	}
	fine := &Thresholds{Backlog: ptr(1.0)}
	same(t, "the alerts' own topic", pointersOf(t, fine.Check(Topic)), []string{"topic"})
	same(t, "a long name", pointersOf(t, fine.Check(strings.Repeat("t", MaxTopicName+1))), []string{"topic"})
	long := strings.Repeat("t", MaxTopicName)
	rules, err := (&Thresholds{FailureRate: ptr(0.5)}).rules(long)
	if err != nil {
		t.Fatal(err)
	}
	if err := job.CheckName(rules[0].Name); err != nil {
		t.Errorf("the longest name %v", err)
	}
}

func pointersOf(t *testing.T, err error) (pointers []string) {
	t.Helper()
	var wrong *job.ValidationError
	if !errors.As(err, &wrong) {
		t.Fatalf("error %v", err)
	}
	for _, f := range wrong.Fields {
		pointers = append(pointers, string(f.Field))
	}
	slices.Sort(pointers)
	return pointers
}

// A topic's thresholds are rules as long as they are there, beside others.
func TestThresholdsAreEvaluated(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("all", Draft{Metric: "dead_letters", Above: ptr(100.0)})
		r.setTopics(map[string]*Thresholds{
			"t": {DeadLetters: ptr(1.0), Failures: ptr(2.0), OldestDue: ptr(time.Hour), Terms: atOnce(Terms{})},
			"u": {DeadLetters: ptr(0.0), Terms: atOnce(Terms{})},
		}, false)
		pass(round)
		r.add("t", shop, 3)
		r.add("v", shop, 3)
		r.work(a, job.OutcomeRefused)
		pass(round)
		same(t, "alerts", a.alerts(), []string{"t:dead_letters firing t 3", "t:failures firing t 3"})
		rules, err := a.Rules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range rules {
			names = append(names, rules[i].Name)
		}
		same(t, "rules", names, []string{"all", "t:dead_letters", "t:failures", "t:oldest_due", "u:dead_letters"})
		if one, err := a.Rule(t.Context(), "u:dead_letters"); err != nil || one.Topic != "u" {
			t.Errorf("%+v, error %v", one, err)
		}
		if _, err := a.Rule(t.Context(), "u:backlog"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a threshold that is not set: %v", err)
		}
		r.setTopics(map[string]*Thresholds{"t": {Failures: ptr(2.0), Terms: atOnce(Terms{})}}, false)
		pass(round)
		same(t, "alerts after one went", a.alerts(), []string{"t:failures firing t 3"})
		r.setTopics(nil, false)
		pass(round)
		told := r.told()
		slices.Sort(told)
		same(t, "webhooks", told, []string{
			"t:dead_letters firing t 3", "t:dead_letters resolved t 3", "t:failures firing t 3", "t:failures resolved t 3",
		})
	})
}

// A node that does not know a topic's thresholds, as after its start, resolves
// nothing for that, not even when it cannot ask.
func TestThresholdsThatANodeDoesNotKnow(t *testing.T) {
	inBubble(t, func(r *rig) {
		all := map[string]*Thresholds{"t": {Backlog: ptr(0.0), Terms: atOnce(Terms{})}}
		r.setTopics(all, false)
		a := r.node("a")
		r.add("t", shop, 1)
		pass(round)
		a.stop()
		r.setTopics(all, true)
		r.failWith(func(call string) error {
			if call == "Thresholds" {
				return store.ErrUnavailable
			}
			return nil
		})
		b := r.node("b")
		pass(3 * round)
		r.failWith(nil)
		pass(3 * round)
		same(t, "alerts", b.alerts(), []string{"t:backlog firing t 1"})
		same(t, "webhooks", r.told(), []string{"t:backlog firing t 1"})
	})
}
