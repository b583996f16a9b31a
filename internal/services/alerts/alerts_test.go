package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/store"
)

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const round = evaluateEvery + time.Second

// hold holds an endpoint as a breaker does.
func (r *rig) hold(endpoint string, d time.Duration) {
	r.Helper()
	if err := r.SetCircuit(context.Background(), endpoint, store.CircuitOpen, d); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) release(endpoint string) {
	r.Helper()
	if err := r.SetCircuit(context.Background(), endpoint, store.CircuitClosed, 0); err != nil {
		r.Fatal(err)
	}
}

// One webhook when the alert fires and one when it is resolved, however many
// nodes there are, and however often the endpoint is held and probed meanwhile.
func TestHeldEndpointIsToldOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, _ := r.node("a"), r.node("b")
		a.rule("down", Draft{Metric: OpenCircuits})
		pass(round)
		same(t, "before", r.told(), nil)
		for range 10 {
			r.hold(shop, 10*time.Second)
			pass(20 * time.Second) // held for ten seconds, probed for as long
			r.release(shop)
			pass(quietFor - 2*round)
		}
		same(t, "while it goes down and up", r.told(), []string{"down firing " + shop})
		pass(quietFor)
		same(t, "webhooks", r.told(), []string{"down firing " + shop, "down resolved " + shop})
		same(t, "alerts", a.alerts(), nil)
	})
}

// The webhook has what it takes to tell alerts apart, and is a job like any other.
func TestWebhook(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("late", Draft{Metric: OldestDue, Above: ptr(60.0)})
		r.add("orders", shop, 1)
		pass(time.Minute + round)
		r.work(a, job.OutcomeDelivered)
		pass(quietFor + 2*round)
		same(t, "webhooks", r.told(), []string{"late firing orders", "late resolved orders"})
		for _, j := range r.webhooks() {
			p := r.payload(&j)
			want := []job.Label{{Key: "rule", Value: "late"}, {Key: "status", Value: p.Status}}
			if j.ID != p.Alert+"."+p.Status || j.Spec.BizKey != p.Alert || j.Spec.Destination != opsURL || !slices.Equal(j.Spec.Labels, want) || len(j.UID) != 26 {
				t.Errorf("the job is %+v", j)
			}
			if p.Metric != OldestDue || p.Endpoint != nil || p.Node != nil || p.Value != 65 || p.Threshold != 60 || (p.ResolvedAt != nil) != (p.Status == resolved) {
				t.Errorf("the payload is %+v", p)
			}
			if text := "[" + strings.ToUpper(p.Status) + "] late: seconds of delay of topic orders: 65, above 60"; p.Text != text {
				t.Errorf("text %q, want %q", p.Text, text)
			}
		}
	})
}

// Slack and Teams are sent the text as they take it.
func TestFormats(t *testing.T) {
	alert := Alert{Subject: Subject{Endpoint: shop}, Metric: OpenCircuits, Value: 1, FiredAt: 1_767_258_060_000}
	const line = `"[FIRING] down: open circuit of endpoint https://shop.example:443"`
	for format, want := range map[string]string{
		Slack: `{"text":` + line + `}`,
		Teams: `{"attachments":[{"content":{"body":[{"text":` + line + `,"type":"TextBlock","wrap":true}],"type":"AdaptiveCard","version":"1.4"},` +
			`"contentType":"application/vnd.microsoft.card.adaptive"}],"type":"message"}`,
	} {
		r := Rule{Name: "down", Metric: OpenCircuits, URL: opsURL, Format: format}
		if got := string(r.webhook(&alert, firing).Spec.Body); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

// A node that dies between any two steps makes no webhook come twice or not at
// all: the next one goes on from what is written.
func TestNodesThatDie(t *testing.T) {
	for _, at := range []string{"PutDocuments alert-rule", "Register", "second PutDocuments alert-rule"} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a := r.node("a")
				a.rule("down", Draft{Metric: OpenCircuits})
				pass(round)
				call, second := strings.CutPrefix(at, "second ")
				seen := 0
				r.failWith(func(c string) error {
					if c == call {
						if seen++; seen > 1 || !second {
							return fmt.Errorf("%w: here it dies", store.ErrUnavailable)
						}
					}
					return nil
				})
				r.hold(shop, time.Hour)
				pass(round)
				a.kill()
				r.failWith(nil)
				b := r.node("b")
				pass(4 * round)
				r.release(shop)
				pass(quietFor + 2*round)
				same(t, "webhooks", r.told(), []string{"down firing " + shop, "down resolved " + shop})
				same(t, "alerts", b.alerts(), nil)
			})
		})
	}
}

// All nodes start anew while alerts fire: they go on, until a whole window is known.
func TestRestart(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: OpenCircuits})
		a.rule("failing", Draft{Metric: Failures, Endpoint: shop, Above: ptr(4.0), Window: ptr(3 * time.Minute)})
		pass(round)
		r.hold(bank, time.Hour)
		r.add("t", shop, 5)
		r.work(a, job.OutcomeFailed)
		pass(3 * round)
		want := []string{"down " + bank + " 1", "failing " + shop + " 5"}
		same(t, "alerts", a.alerts(), want)
		a.stop()
		b := r.node("b")
		pass(2*time.Minute + 50*time.Second)
		same(t, "alerts while less is known than the window is long", b.alerts(), want)
		pass(quietFor + 20*time.Second)
		same(t, "alerts", b.alerts(), want[:1])
	})
}

// A node that leaves lets another one go on at once; one that dies, when its
// lease ends.
func TestTakeover(t *testing.T) {
	for name, limit := range map[string]time.Duration{"stop": round, "kill": leader.Lease + 2*round} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a := r.node("a")
				a.rule("down", Draft{Metric: OpenCircuits})
				pass(round)
				b := r.node("b")
				pass(round)
				if name == "stop" {
					a.stop()
				} else {
					a.kill()
				}
				r.hold(shop, time.Hour)
				pass(limit)
				same(t, "alerts", b.alerts(), []string{"down " + shop + " 1"})
			})
		})
	}
}

// What all nodes settle counts together, and only while it is in the window.
func TestFailures(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := r.node("a"), r.node("b")
		minute := ptr(time.Minute)
		a.rule("topics", Draft{Metric: Failures, Above: ptr(5.0), Window: minute})
		a.rule("bank", Draft{Metric: Failures, Endpoint: bank, Above: ptr(4.0), Window: minute})
		a.rule("narrow", Draft{Metric: Failures, Topic: "u", Endpoint: bank, Above: ptr(3.0), Window: minute})
		a.rule("dead", Draft{Metric: DeadLetters, Topic: "t", Above: ptr(0.0), Window: minute})
		pass(2 * round)
		for _, batch := range []struct {
			n               *node
			topic, endpoint string
			jobs            int
			kind            job.OutcomeKind
		}{
			{a, "t", shop, 4, job.OutcomeFailed},
			{b, "t", shop, 4, job.OutcomeFailed},
			{b, "t", bank, 1, job.OutcomeRefused},
			{a, "u", bank, 4, job.OutcomeFailed},
			{b, "t", bank, 5, job.OutcomeDelivered},
			{a, "u", bank, 9, job.OutcomeDelivered},
			{a, "u", shop, 3, job.OutcomeSnoozed},
			{a, Topic, shop, 50, job.OutcomeFailed},
			{b, "u", shop, 30, job.OutcomeReleased},
		} {
			r.add(batch.topic, batch.endpoint, batch.jobs)
			r.work(batch.n, batch.kind)
		}
		pass(2 * round)
		want := []string{"bank " + bank + " 5", "dead t 1", "narrow u " + bank + " 4", "topics t 9"}
		same(t, "alerts", a.alerts(), want)
		pass(40 * time.Second)
		same(t, "alerts within the window", a.alerts(), want)
		pass(slotLength + quietFor + 3*round)
		same(t, "alerts after the window", a.alerts(), nil)
	})
}

// Many failing lanes take bounded memory and messages of bounded size.
func TestManyFailures(t *testing.T) {
	c := NewCounts(nil, nil, nil)
	long := strings.Repeat("x", job.MaxName-5)
	for i := range 10 * maxLanes {
		c.pending.add(count{Topic: fmt.Sprintf("%s%05d", long, i), Endpoint: "https://" + strings.Repeat("y", 253) + ":65535", Failed: 1, Dead: 1})
	}
	message, err := json.Marshal(slices.Collect(maps.Values(c.pending)))
	if err != nil || len(c.pending) != maxLanes || len(message) > store.MaxMessage {
		t.Errorf("%d lanes, %d bytes, error %v", len(c.pending), len(message), err)
	}
}

// Jobs that are due and wait, of each topic; those of alerts do not count.
func TestBacklog(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("jobs", Draft{Metric: Backlog, Above: ptr(2.0)})
		a.rule("late-u", Draft{Metric: OldestDue, Topic: "u", Above: ptr(10.0)})
		r.add(Topic, shop, 9)
		pass(20 * time.Second)
		r.add("t", shop, 2)
		r.add("t", bank, 1)
		r.add("u", shop, 2)
		pass(round)
		same(t, "alerts", a.alerts(), []string{"jobs t 3"})
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"jobs t 3", "late-u u 15"})
	})
}

// A node without heartbeats is an alert until it is back, or forgotten.
func TestSilentNodes(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("nodes", Draft{Metric: SilentNodes})
		r.silence("host n7")
		pass(round)
		r.silence()
		pass(quietFor + 2*round)
		same(t, "webhooks", r.told(), []string{"nodes firing host n7", "nodes resolved host n7"})
	})
}

// A trouble of the server or of an inbox is an alert with its cause until it is known to be over.
func TestTrouble(t *testing.T) {
	for _, metric := range []string{ServerTrouble, InboxTrouble} {
		t.Run(metric, func(t *testing.T) { testTrouble(t, metric) })
	}
}

func testTrouble(t *testing.T, metric string) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("db", Draft{Metric: metric})
		r.harm(false, "vacuum_held: a transaction of report (pid 7, psql)")
		pass(round)
		r.harm(true)
		pass(quietFor + 2*round)
		same(t, "webhooks", r.told(), []string{"db firing vacuum_held: a transaction of report (pid 7, psql)"})
		r.harm(false)
		pass(quietFor + 2*round)
		same(t, "webhooks", r.told(), []string{
			"db firing vacuum_held: a transaction of report (pid 7, psql)", "db resolved vacuum_held: a transaction of report (pid 7, psql)",
		})
	})
}

// An endpoint that alerts go to is not watched: alerts about alerts would make
// more of them.
func TestAlertsDoNotLoop(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: OpenCircuits})
		a.rule("quiet", Draft{Metric: OpenCircuits, Endpoint: bank, URL: shop + "/x"})
		r.hold("https://ops.example:443", time.Hour)
		r.hold(shop, time.Hour)
		pass(10 * round)
		same(t, "alerts", a.alerts(), nil)
	})
}

// The alerts of a rule that is deleted are resolved, and told so.
func TestDeletedRule(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: OpenCircuits})
		a.rule("calm", Draft{Metric: Backlog, Above: ptr(100.0)})
		r.hold(shop, time.Hour)
		pass(round)
		for _, name := range []string{"down", "calm"} {
			if err := a.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if err := a.Delete(t.Context(), name); !errors.Is(err, ErrNotFound) {
				t.Errorf("deleted twice: %v", err)
			}
			if _, err := a.Rule(t.Context(), name); !errors.Is(err, ErrNotFound) {
				t.Errorf("read after that: %v", err)
			}
		}
		if rules, err := a.Rules(t.Context()); err != nil || len(rules) > 0 {
			t.Errorf("listed after that: %+v, %v", rules, err)
		}
		pass(round)
		same(t, "webhooks", r.told(), []string{"down firing " + shop, "down resolved " + shop})
		docs, err := r.Store.ListDocuments(t.Context(), store.DocumentQuery{Kind: "alert-rule"})
		if err != nil || len(docs) > 0 {
			t.Errorf("%d documents are left, error %v", len(docs), err)
		}
	})
}

// A rule that is replaced keeps its alerts, under its new terms; those of
// another metric are resolved.
func TestReplacedRule(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("jobs", Draft{Metric: Backlog, Above: ptr(2.0)})
		r.add("t", shop, 5)
		pass(round)
		a.rule("jobs", Draft{Metric: Backlog, Above: ptr(4.0)})
		pass(quietFor + 2*round)
		same(t, "webhooks", r.told(), []string{"jobs firing t"})
		a.rule("jobs", Draft{Metric: DeadLetters, Above: ptr(0.0)})
		pass(quietFor + 2*round)
		same(t, "webhooks", r.told(), []string{"jobs firing t", "jobs resolved t"})
	})
}

// An alert without a URL notifies nobody, until the rule has one.
func TestAlertWithoutURL(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		d := Draft{Metric: Backlog, Above: ptr(2.0)}
		put := func() {
			if _, _, err := a.Put(context.Background(), "jobs", d); err != nil {
				t.Fatal(err)
			}
			pass(2 * round)
		}
		put()
		r.add("t", shop, 5)
		pass(3 * round)
		same(t, "alerts", a.alerts(), []string{"jobs t 5"})
		same(t, "webhooks", r.told(), nil)
		d.URL = opsURL
		put()
		same(t, "webhooks", r.told(), []string{"jobs firing t"})
	})
}

// What cannot be read resolves nothing, and is logged once.
func TestOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: OpenCircuits})
		r.hold(shop, time.Hour)
		pass(round)
		for _, call := range []string{"Endpoints", "ListDocuments", "PutDocuments " + leader.Kind} {
			r.failWith(func(c string) error {
				if c == call {
					return store.ErrUnavailable
				}
				return nil
			})
			pass(time.Minute)
			r.failWith(nil)
			pass(round)
			same(t, "webhooks after an outage of "+call, r.told(), []string{"down firing " + shop})
		}
	})
}

// A webhook that the store does not take in is told when it does.
func TestRefusedWebhooks(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: OpenCircuits})
		pass(round)
		r.failWith(func(call string) error {
			if call == "Register" {
				return errRefused
			}
			return nil
		})
		r.hold(shop, time.Hour)
		pass(3 * round)
		same(t, "webhooks", r.told(), nil)
		r.failWith(nil)
		pass(round)
		same(t, "webhooks", r.told(), []string{"down firing " + shop})
	})
}

// A rule has a bounded number of alerts: the worst.
func TestManySubjects(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("jobs", Draft{Metric: Backlog, Above: ptr(0.0)})
		for i := range MaxSubjects + 20 {
			r.add(fmt.Sprintf("t%03d", i), shop, 1+i%2)
		}
		pass(3 * round)
		if n := len(r.told()); n != MaxSubjects {
			t.Errorf("%d alerts", n)
		}
		worst := 0
		for _, line := range a.alerts() {
			if strings.HasSuffix(line, " 2") {
				worst++
			}
		}
		if worst != (MaxSubjects+20)/2 {
			t.Errorf("%d of the worst are told", worst)
		}
	})
}

// The metric tells of every rule, on the node that evaluates.
func TestMetric(t *testing.T) {
	inBubble(t, func(r *rig) {
		registry := prometheus.NewPedanticRegistry()
		l := &link{rig: r}
		a := r.start(l, "a", Options{Store: l, Jobs: own{l}, Silent: l.silent, Metrics: registry})
		a.rule("down", Draft{Metric: OpenCircuits})
		a.rule("late", Draft{Metric: OldestDue, Above: ptr(1.0)})
		a.rule("gone", Draft{Metric: OldestDue, Above: ptr(1.0)})
		r.hold(shop, time.Hour)
		r.hold(bank, time.Hour)
		pass(2 * round)
		if err := a.Delete(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		pass(2 * round)
		const want = `
# HELP duehook_alert_firing Alerts that fire, by rule; on the node that evaluates them.
# TYPE duehook_alert_firing gauge
duehook_alert_firing{rule="down"} 2
duehook_alert_firing{rule="late"} 0
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}

func TestTooManyRules(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		for i := range MaxRules {
			a.rule(fmt.Sprint("r", i), Draft{Metric: OpenCircuits})
		}
		a.rule("r7", Draft{Metric: OpenCircuits})
		if _, _, err := a.Put(t.Context(), "more", Draft{Metric: OpenCircuits}); !errors.Is(err, ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		if _, err := a.Rule(t.Context(), "more"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
	})
}
