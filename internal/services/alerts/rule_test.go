package alerts

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

func TestRuleDefaults(t *testing.T) {
	for _, c := range []struct {
		draft Draft
		want  Rule
	}{
		{
			Draft{Metric: "open_circuits"},
			Rule{Metric: OpenCircuits, By: ByEndpoint, For: time.Minute, KeepFiring: time.Minute, Repeat: 4 * time.Hour},
		},
		{
			Draft{Metric: "failure_rate", By: "topic", Above: ptr(0.25), URL: opsURL, Repeat: ptr(time.Duration(0)), For: ptr(time.Duration(0))},
			Rule{
				Metric: FailureRate, By: ByTopic, Above: 0.25, Window: 5 * time.Minute, MinAttempts: 10, KeepFiring: time.Minute, URL: opsURL,
			},
		},
		{
			Draft{Metric: "dead_letters", Above: ptr(0.0), Topic: "t", Endpoint: shop, Window: ptr(time.Hour)},
			Rule{
				Metric: DeadLetters, By: ByTotal, Window: time.Hour, Topic: "t", Endpoint: shop,
				For: time.Minute, KeepFiring: time.Minute, Repeat: 4 * time.Hour,
			},
		},
	} {
		got, err := c.draft.rule("r")
		c.want.Name = "r"
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%+v: error %v (-want +got):\n%s", c.draft, err, diff)
		}
	}
}

func TestBadRules(t *testing.T) {
	minute := ptr(time.Minute)
	for _, c := range []struct {
		draft Draft
		want  string
	}{
		{Draft{}, "metric"},
		{Draft{Metric: "weather", URL: "ftp://x"}, "url metric"},
		{Draft{Metric: "failures"}, "above"},
		{Draft{Metric: "failures", Above: ptr(-1.0)}, "above"},
		{Draft{Metric: "failures", Above: ptr(1e12)}, "above"},
		{Draft{Metric: "failure_rate", Above: ptr(1.0)}, "above"},
		{Draft{Metric: "failure_rate", Above: ptr(0.5), MinAttempts: ptr(0)}, "min_attempts"},
		{Draft{Metric: "failures", Above: ptr(1.0), MinAttempts: ptr(1)}, "min_attempts"},
		{Draft{Metric: "failures", Above: ptr(1.0), Window: ptr(time.Second)}, "window"},
		{Draft{Metric: "failures", Above: ptr(1.0), Window: ptr(2 * time.Hour)}, "window"},
		{Draft{Metric: "failures", Above: ptr(1.0), By: "label"}, "by"},
		{Draft{Metric: "failures", Above: ptr(1.0), Topic: Topic}, "topic"},
		{Draft{Metric: "backlog", Above: ptr(1.0), By: "endpoint", Endpoint: shop, Window: minute}, "by endpoint window"},
		{Draft{Metric: "open_circuits", By: "topic", Topic: "t"}, "by topic"},
		{Draft{Metric: "open_circuits", For: ptr(25 * time.Hour), KeepFiring: ptr(25 * time.Hour)}, "for keep_firing_for"},
		{Draft{Metric: "open_circuits", Repeat: ptr(time.Second)}, "repeat"},
		{Draft{Metric: "open_circuits", Repeat: ptr(8 * 24 * time.Hour)}, "repeat"},
	} {
		err := c.draft.Check("down")
		var wrong *job.ValidationError
		if !errors.As(err, &wrong) {
			t.Errorf("%+v: error %v", c.draft, err)
			continue
		}
		var got []string
		for _, f := range wrong.Fields {
			got = append(got, string(f.Field))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.draft, wrong, c.want)
		}
	}
}

// The webhook in the document is as webhooks are.
func TestDocumentedWebhook(t *testing.T) {
	text, err := os.ReadFile("../../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```json\n")
	example, _, _ := strings.Cut(after, "```")
	b := &book{Rule: "endpoint-down"}
	s := Alert{
		Rule: "endpoint-down", Subject: Subject{Endpoint: shop}, Metric: OpenCircuits, URL: opsURL,
		Value: 1, Since: 1_767_258_000_000, FiredAt: 1_767_258_060_000, ID: "01KDWCJ2M0ZV9M3C0F7GQ8T1XA",
	}
	b.tell(&s, Firing, s.FiredAt)
	var want, got any
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Notices[0].Body, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-document +webhook):\n%s", diff)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a manager without a store")
	}
}

// Every metric is one of those that are told.
func TestMetrics(t *testing.T) {
	if len(Metrics) != len(kinds) {
		t.Errorf("%d metrics are told, and there are %d", len(Metrics), len(kinds))
	}
	for _, m := range Metrics {
		if _, ok := kinds[m]; !ok {
			t.Errorf("%s is none", m)
		}
	}
}

func FuzzIdentifier(f *testing.F) {
	f.Add(int64(1_767_258_000_000), "a", "b")
	f.Fuzz(func(t *testing.T, at int64, a, b string) {
		if at < 0 || at > 1<<47 || strings.Contains(a+b, "\n") {
			return
		}
		id := identifier(job.Instant(at), a, b)
		if len(id) != 26 || id != identifier(job.Instant(at), a, b) {
			t.Errorf("%q", id)
		}
		if a != b && id == identifier(job.Instant(at), b, a) {
			t.Errorf("%q and %q have the same id", a, b)
		}
	})
}

func TestNamesOfRules(t *testing.T) {
	longest := strings.Repeat("r", MaxRuleName)
	for name, want := range map[string]string{
		"down": "", longest: "", longest + "r": "at most 64 characters",
	} {
		d := Draft{Metric: "open_circuits"}
		err := d.Check(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// After the store's clock went back, nothing waits until it has caught up.
func TestAlertsAfterTheClockWentBack(t *testing.T) {
	rule := &Rule{Name: "r", Metric: OpenCircuits, For: time.Minute, KeepFiring: 2 * time.Minute, Repeat: 10 * time.Minute}
	at := func(d time.Duration) job.Instant { return job.Instant(1_790_000_000_000).Add(d) }
	for name, test := range map[string]struct {
		before, after func(step func(value float64, at job.Instant))
		told          int
	}{
		"pending": {
			func(step func(float64, job.Instant)) { step(1, at(0)) },
			func(step func(float64, job.Instant)) { step(1, at(-time.Hour)); step(1, at(time.Minute-time.Hour)) }, 1,
		},
		"firing, to be repeated": {
			func(step func(float64, job.Instant)) { step(1, at(0)); step(1, at(time.Minute)) },
			func(step func(float64, job.Instant)) { step(1, at(-time.Hour)); step(1, at(10*time.Minute-time.Hour)) }, 2,
		},
		"about to be resolved": {
			func(step func(float64, job.Instant)) {
				step(1, at(0))
				step(1, at(time.Minute))
				step(0, at(2*time.Minute))
			},
			func(step func(float64, job.Instant)) { step(0, at(-time.Hour)); step(0, at(2*time.Minute-time.Hour)) }, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &book{Rule: "r"}
			rule.URL = "https://chat.example/hook"
			step := func(value float64, now job.Instant) {
				v := values{}
				if value > 0 {
					v[Subject{Endpoint: "https://shop.example:443"}] = value
				}
				b.step(rule, v, true, now)
			}
			test.before(step)
			test.after(step)
			if len(b.Notices) != test.told {
				t.Errorf("%d webhooks, not %d", len(b.Notices), test.told)
			}
		})
	}
}
