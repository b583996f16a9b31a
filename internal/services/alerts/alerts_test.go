package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const round = DefaultEvery + time.Second

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
		a.rule("down", Draft{Metric: "open_circuits"})
		pass(round)
		same(t, "before", r.told(), nil)
		for range 10 {
			r.hold(shop, 10*time.Second)
			pass(20 * time.Second) // held for ten seconds, probed for as long
		}
		r.release(shop)
		pass(time.Minute)
		same(t, "webhooks", r.told(), []string{"down firing " + shop + " 1", "down resolved " + shop + " 0"})
		same(t, "alerts", a.alerts(), nil)
	})
}

// The webhook has what it takes to tell alerts apart, and is a job like any other.
func TestWebhook(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("late", Draft{Metric: "oldest_due", By: "topic", Above: ptr(60.0), Repeat: ptr(time.Hour)})
		r.add("orders", shop, 1)
		pass(90*time.Minute + round)
		r.work(a, job.OutcomeDelivered)
		pass(round)
		var statuses, ids []string
		jobs := r.webhooks()
		for i := range jobs {
			j := &jobs[i]
			p := r.payload(j)
			statuses = append(statuses, fmt.Sprintf("%s %d", p.Status, p.Repeat))
			ids = append(ids, strings.TrimPrefix(j.ID, p.Alert))
			want := []job.Label{{Key: "rule", Value: "late"}, {Key: "status", Value: string(p.Status)}}
			if j.Spec.BizKey != p.Alert || j.Spec.Destination != opsURL || !slices.Equal(j.Spec.Labels, want) || len(j.UID) != 26 {
				t.Errorf("the job is %+v", j)
			}
			if p.Rule != "late" || p.Metric != OldestDue || *p.Subject.Topic != "orders" || p.Subject.Endpoint != nil || p.Threshold != 60 {
				t.Errorf("the payload is %+v", p)
			}
			if (p.ResolvedAt != nil) != (p.Status == Resolved) || p.Since == "" || p.FiredAt < p.Since {
				t.Errorf("its times are %s, %s, %v", p.Since, p.FiredAt, p.ResolvedAt)
			}
		}
		same(t, "statuses", statuses, []string{"firing 0", "firing 1", "resolved 1"})
		same(t, "ids", ids, []string{".firing", ".firing.1", ".resolved"})
		if text := r.payload(&jobs[0]).Text; text != "[FIRING] late: oldest_due of topic orders is 65, threshold 60" {
			t.Errorf("text %q", text)
		}
	})
}

// A value that is above for a moment, or below for one, is not told.
func TestFlapping(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits", For: ptr(time.Minute), KeepFiring: ptr(2 * time.Minute)})
		for range 5 {
			r.hold(shop, time.Hour)
			pass(40 * time.Second)
			same(t, "alerts", a.alerts(), []string{"down pending " + shop + " 1"})
			r.release(shop)
			pass(30 * time.Second)
			same(t, "alerts", a.alerts(), nil)
		}
		same(t, "webhooks of short holds", r.told(), nil)
		r.hold(shop, time.Hour)
		pass(70 * time.Second)
		for range 5 {
			r.release(shop)
			pass(100 * time.Second)
			r.hold(shop, time.Hour)
			pass(10 * time.Second)
		}
		same(t, "webhooks of one long hold", r.told(), []string{"down firing " + shop + " 1"})
		r.release(shop)
		pass(2*time.Minute + round)
		same(t, "webhooks", r.told(), []string{"down firing " + shop + " 1", "down resolved " + shop + " 0"})
	})
}

// A node that dies between any two steps makes no webhook come twice or not at
// all: the next one goes on from what is written.
func TestNodesThatDie(t *testing.T) {
	for _, at := range []string{"PutDocuments " + bookKind, "Register", "second PutDocuments " + bookKind} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a := r.node("a")
				a.rule("down", Draft{Metric: "open_circuits"})
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
				pass(round)
				same(t, "webhooks", r.told(), []string{"down firing " + shop + " 1", "down resolved " + shop + " 0"})
				same(t, "alerts", b.alerts(), nil)
			})
		})
	}
}

// All nodes start anew while an alert fires: it goes on.
func TestRestart(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
		a.rule("failing", Draft{Metric: "failures", By: "endpoint", Above: ptr(4.0), Window: ptr(time.Minute)})
		pass(round)
		r.hold(bank, time.Hour)
		r.add("t", shop, 5)
		r.work(a, job.OutcomeFailed)
		pass(2 * round)
		want := []string{"down firing " + bank + " 1", "failing firing " + shop + " 5"}
		same(t, "alerts", a.alerts(), want)
		a.stop()
		b := r.node("b")
		pass(30 * time.Second)
		same(t, "alerts while less is known than the window is long", b.alerts(), want)
		pass(time.Minute)
		same(t, "alerts", b.alerts(), want[:1])
		r.release(bank)
		pass(round)
		told := r.told()
		slices.Sort(told)
		same(t, "webhooks", told, []string{
			"down firing " + bank + " 1", "down resolved " + bank + " 0",
			"failing firing " + shop + " 5", "failing resolved " + shop + " 0",
		})
	})
}

// A node that leaves lets another one go on at once; one that dies, when its
// lease ends.
func TestTakeover(t *testing.T) {
	for name, limit := range map[string]time.Duration{"stop": round, "kill": (leaseRounds + 1) * round} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a := r.node("a")
				a.rule("down", Draft{Metric: "open_circuits"})
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
				same(t, "alerts", b.alerts(), []string{"down firing " + shop + " 1"})
			})
		})
	}
}

// What all nodes settle counts together, and only while it is in the window.
func TestFailures(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := r.node("a"), r.node("b")
		for by, above := range map[string]float64{"total": 11, "topic": 5, "endpoint": 8} {
			a.rule("by-"+by, Draft{Metric: "failures", By: by, Above: &above, Window: ptr(time.Minute)})
		}
		a.rule("rate", Draft{Metric: "failure_rate", By: "topic", Above: ptr(0.5), Window: ptr(time.Minute)})
		a.rule("few", Draft{Metric: "failure_rate", Above: ptr(0.1), Window: ptr(time.Minute), MinAttempts: ptr(1000)})
		a.rule("narrow", Draft{Metric: "failures", Topic: "u", Endpoint: bank, Above: ptr(3.0), Window: ptr(time.Minute)})
		a.rule("dead", Draft{Metric: "dead_letters", Topic: "t", Above: ptr(0.0), Window: ptr(time.Minute)})
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
		same(t, "alerts", a.alerts(), []string{
			"by-topic firing t 9", "by-total firing 13", "dead firing t 1",
			"narrow firing u " + bank + " 4", "rate firing t 0.643",
		})
		pass(90 * time.Second)
		same(t, "alerts after the window", a.alerts(), nil)
	})
}

// Dead letters are those that are kept, until they are replayed.
// TestRest: while there are no rules nobody keeps looking for them, and who makes
// one is heard by other nodes.
func TestRest(t *testing.T) {
	inBubble(t, func(r *rig) {
		var lists atomic.Int64
		r.failWith(func(call string) error {
			if call == "ListDocuments" {
				lists.Add(1)
			}
			return nil
		})
		a, b := r.node("a"), r.node("b")
		const minute = 12 * round
		pass(minute)
		lists.Store(0)
		pass(minute)
		if n, most := lists.Load(), int64(2*2*(12/idleRounds+1)); n == 0 || n > most {
			t.Errorf("two nodes listed documents %d times in a minute, want 1 to %d", n, most)
		}
		a.rule("failures", Draft{Metric: "failures", Above: ptr(0.0), Window: ptr(time.Minute)})
		pass(2 * round)
		r.add("t", shop, 1)
		r.work(b, job.OutcomeFailed)
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"failures firing 1"})
	})
}

func TestDeadLetters(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("dead", Draft{Metric: "dead_letters", By: "endpoint", Above: ptr(2.0)})
		a.rule("all", Draft{Metric: "dead_letters", Above: ptr(5.0)})
		r.add("t", shop, 2)
		r.add("u", shop, 1)
		r.add("t", bank, 2)
		r.add(Topic, shop, 9)
		r.work(a, job.OutcomeRefused)
		pass(round)
		same(t, "alerts", a.alerts(), []string{"dead firing " + shop + " 3"})
		page, err := listing.List(t.Context(), r, store.Query{Topic: "u", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Update(t.Context(), page.Jobs[0].Key, func(j *job.Job, now job.Instant) error { return j.Replay(now) }); err != nil {
			t.Fatal(err)
		}
		pass(round)
		same(t, "alerts after a replay", a.alerts(), nil)
	})
}

// Jobs that are due and wait, of each topic and together; those of alerts do
// not count.
func TestBacklog(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("jobs", Draft{Metric: "backlog", By: "topic", Above: ptr(2.0)})
		a.rule("all", Draft{Metric: "backlog", Above: ptr(4.0)})
		a.rule("late", Draft{Metric: "oldest_due", Above: ptr(10.0)})
		a.rule("late-u", Draft{Metric: "oldest_due", Topic: "u", Above: ptr(10.0)})
		r.add(Topic, shop, 9)
		pass(20 * time.Second)
		r.add("t", shop, 2)
		r.add("t", bank, 1)
		r.add("u", shop, 2)
		pass(round)
		same(t, "alerts", a.alerts(), []string{"all firing 5", "jobs firing t 3"})
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"all firing 5", "jobs firing t 3", "late firing 15", "late-u firing u 15"})
	})
}

// An endpoint that alerts go to is not watched: alerts about alerts would make
// more of them.
func TestAlertsDoNotLoop(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
		a.rule("quiet", Draft{Metric: "open_circuits", By: "total", Above: ptr(1.0), URL: shop + "/x"})
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
		a.rule("down", Draft{Metric: "open_circuits"})
		a.rule("wait", Draft{Metric: "open_circuits", For: ptr(time.Hour)})
		r.hold(shop, time.Hour)
		pass(round)
		for _, name := range []string{"down", "wait"} {
			if err := a.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		pass(round)
		same(t, "webhooks", r.told(), []string{"down firing " + shop + " 1", "down resolved " + shop + " 1"})
		docs, err := r.Store.ListDocuments(t.Context(), store.DocumentQuery{Kind: bookKind})
		if err != nil || len(docs) > 0 {
			t.Errorf("%d documents are left, error %v", len(docs), err)
		}
		if err := a.Delete(t.Context(), "down"); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

// A rule that is replaced keeps its alerts, under its new terms; those of
// another metric are resolved.
func TestReplacedRule(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("jobs", Draft{Metric: "backlog", By: "topic", Above: ptr(2.0)})
		r.add("t", shop, 5)
		pass(round)
		a.rule("jobs", Draft{Metric: "backlog", By: "topic", Above: ptr(4.0)})
		pass(round)
		a.rule("jobs", Draft{Metric: "oldest_due", By: "topic", Above: ptr(1.0)})
		pass(2 * round)
		same(t, "webhooks", r.told(), []string{"jobs firing t 5", "jobs resolved t 0", "jobs firing t 20"})
	})
}

// An alert without a URL notifies nobody, and does not say that it did.
func TestAlertWithoutURL(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		d := Draft{Metric: "backlog", By: "topic", Above: ptr(2.0), Repeat: ptr(time.Minute)}
		d.URL = ""
		if _, _, err := a.Put(context.Background(), "jobs", d); err != nil {
			t.Fatal(err)
		}
		r.add("t", shop, 5)
		pass(3 * time.Minute)
		all, err := a.Alerts(context.Background())
		if err != nil || len(all) != 1 || !all[0].Firing() || all[0].ToldAt != 0 || all[0].Repeats != 0 {
			t.Errorf("got %+v, %v; want one that fires and was told to nobody", all, err)
		}
		d.URL = opsURL
		if _, _, err := a.Put(context.Background(), "jobs", d); err != nil {
			t.Fatal(err)
		}
		pass(2 * round)
		if all, err = a.Alerts(context.Background()); err != nil || len(all) != 1 || all[0].ToldAt == 0 || all[0].Repeats != 1 {
			t.Errorf("got %+v, %v; want one that was told once", all, err)
		}
	})
}

// What cannot be read resolves nothing, and is logged once.
func TestOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
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
			same(t, "webhooks after an outage of "+call, r.told(), []string{"down firing " + shop + " 1"})
		}
	})
}

// A webhook that the store does not take in is told when it does.
func TestRefusedWebhooks(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
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
		same(t, "webhooks", r.told(), []string{"down firing " + shop + " 1"})
	})
}

// What waits for the store is bounded: the latest is kept.
func TestNoticesAreBounded(t *testing.T) {
	b := &book{Rule: "r"}
	for i := range maxNotices + 3 {
		b.tell(&Alert{Rule: "r", URL: opsURL, ID: fmt.Sprint(i)}, Firing, 1)
	}
	if len(b.Notices) != maxNotices || b.Notices[0].Alert != "3" {
		t.Errorf("%d notices from %s", len(b.Notices), b.Notices[0].Alert)
	}
}

// A rule has a bounded number of alerts: the worst.
func TestManySubjects(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("jobs", Draft{Metric: "backlog", By: "topic", Above: ptr(0.0)})
		for i := range MaxSubjects + 20 {
			r.add(fmt.Sprintf("t%03d", i), shop, 1+i%2)
		}
		pass(3 * round)
		if n := len(r.told()); n != MaxSubjects {
			t.Errorf("%d alerts", n)
		}
		worst := 0
		for _, line := range r.told() {
			if strings.HasSuffix(line, " 2") {
				worst++
			}
		}
		if worst != (MaxSubjects+20)/2 {
			t.Errorf("%d of the worst are told", worst)
		}
	})
}

// The metric tells of every rule, on nodes that do not evaluate, too.
func TestMetric(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
		a.rule("late", Draft{Metric: "oldest_due", Above: ptr(1.0)})
		r.hold(shop, time.Hour)
		r.hold(bank, time.Hour)
		pass(2 * round)
		registry := prometheus.NewPedanticRegistry()
		m, err := New(Options{Store: r.Store, Jobs: own{r.Store}, Counts: NewCounts(r.Store, nil, nil), ID: "c", Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
			t.Errorf("before the first round: %d series, error %v", n, err)
		}
		if err := m.round(r.Context()); err != nil {
			t.Fatal(err)
		}
		const want = `
# HELP duehook_alert_firing Alerts that fire, by rule; the same on every node.
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
			a.rule(fmt.Sprint("r", i), Draft{Metric: "open_circuits"})
		}
		a.rule("r7", Draft{Metric: "open_circuits"})
		if _, _, err := a.Put(t.Context(), "more", Draft{Metric: "open_circuits"}); !errors.Is(err, ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		if _, err := a.Rule(t.Context(), "more"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
	})
}
