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
		{Draft{Metric: OpenCircuits}, Rule{Metric: OpenCircuits, Format: JSON}},
		{
			Draft{Metric: Failures, Endpoint: shop, Above: ptr(2.5), URL: opsURL, Format: Slack},
			Rule{Metric: Failures, Endpoint: shop, Above: 2.5, Window: DefaultWindow, URL: opsURL, Format: Slack},
		},
		{
			Draft{Metric: DeadLetters, Above: ptr(0.0), Topic: "t", Endpoint: shop, Window: ptr(time.Hour)},
			Rule{Metric: DeadLetters, Topic: "t", Endpoint: shop, Window: time.Hour, Format: JSON},
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
	one := ptr(1.0)
	for _, c := range []struct {
		draft Draft
		want  string
	}{
		{Draft{}, "metric"},
		{Draft{Metric: "weather", URL: "ftp://x", Format: "xml"}, "url format metric"},
		{Draft{Metric: Failures}, "above"},
		{Draft{Metric: Failures, Above: ptr(-1.0)}, "above"},
		{Draft{Metric: Failures, Above: ptr(1e12)}, "above"},
		{Draft{Metric: Failures, Above: one, Window: ptr(time.Second)}, "window"},
		{Draft{Metric: Failures, Above: one, Window: ptr(2 * time.Hour)}, "window"},
		{Draft{Metric: Failures, Above: one, Topic: Topic}, "topic"},
		{Draft{Metric: Backlog, Above: one, Endpoint: shop, Window: ptr(time.Minute)}, "endpoint window"},
		{Draft{Metric: OpenCircuits, Topic: "t", Above: one}, "topic above"},
		{Draft{Metric: SilentNodes, Topic: "t", Endpoint: shop}, "topic endpoint"},
		{Draft{Metric: ServerTrouble, Above: one, Endpoint: shop}, "endpoint above"},
		{Draft{Metric: InboxTrouble, Topic: "t"}, "topic"},
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
	rule := Rule{Name: "endpoint-down", Metric: OpenCircuits, URL: opsURL, Format: JSON}
	alert := Alert{Subject: Subject{Endpoint: shop}, Metric: OpenCircuits, Value: 1, FiredAt: 1_767_258_060_000, ID: "01KDWCJ2M0ZV9M3C0F7GQ8T1XA"}
	var want, got any
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(rule.webhook(&alert, firing).Spec.Body, &got); err != nil {
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
	r := &Rule{Name: "r", Metric: OpenCircuits, URL: opsURL}
	at := func(d time.Duration) job.Instant { return job.Instant(1_790_000_000_000).Add(d) }
	r.step(values{{Endpoint: shop}: 1}, true, at(0))
	r.step(values{}, true, at(time.Minute))
	r.step(values{}, true, at(-time.Hour))
	if n := len(r.webhooks()); n != 1 {
		t.Errorf("%d webhooks at once", n)
	}
	r.step(values{}, true, at(quietFor-time.Hour))
	if n := len(r.webhooks()); n != 2 {
		t.Errorf("%d webhooks after the time", n)
	}
}

// Incomplete values resolve nothing, and cause alerts.
func TestIncompleteValues(t *testing.T) {
	r := &Rule{Name: "r", Metric: OpenCircuits, URL: opsURL}
	at := job.Instant(1_790_000_000_000)
	r.step(values{{Endpoint: shop}: 1}, false, at)
	for range 10 {
		at = at.Add(quietFor)
		r.step(values{}, false, at)
	}
	if n := len(r.webhooks()); n != 1 {
		t.Errorf("%d webhooks", n)
	}
}
