package recent

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

const (
	hourly = iota // places in Windows
	daily
)

// attemptOf counts an attempt at a job of a topic.
func attemptOf(r *Recorder, topic, endpoint string, kind job.OutcomeKind, started job.Instant) {
	s := job.Settle(&job.Job{Key: job.Key{Topic: topic}, NextAt: started}, outcome(kind, started, "http_500"), func(int) (time.Duration, bool) { return time.Minute, true })
	s.Lane = job.Lane{Topic: topic, Endpoint: endpoint}
	r.Subscriber().Settled(func(yield func(*job.Settlement, *store.Settled) bool) { yield(&s, &store.Settled{}) })
}

func seriesOf(t *testing.T, r *Recorder, of Of, window int, now job.Instant) Series {
	t.Helper()
	s, err := r.Series(t.Context(), of, window, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// steps are the steps with counts: delivered, failed, dead, expired.
func steps(s Series) map[int][kinds]int64 {
	found := map[int][kinds]int64{}
	for i := range s.Steps {
		c := [kinds]int64{s.Delivered[i], s.Failed[i], s.Dead[i], s.Expired[i]}
		if c != [kinds]int64{} {
			found[i] = c
		}
	}
	return found
}

func TestSeries(t *testing.T) {
	r := New(Options{})
	now := at(25 * time.Hour)
	ago := func(d time.Duration) job.Instant { return now.Add(-d) }
	attemptOf(r, "a", shop, job.OutcomeDelivered, ago(25*time.Hour)) // more than a day ago
	attemptOf(r, "a", shop, job.OutcomeDelivered, ago(23*time.Hour))
	attemptOf(r, "a", shop, job.OutcomeRefused, ago(time.Minute))
	attemptOf(r, "b", shop, job.OutcomeFailed, ago(time.Minute))
	attemptOf(r, "b", "https://other", job.OutcomeDelivered, ago(0))
	attemptOf(r, "b", shop, job.OutcomeSnoozed, ago(0))
	attemptOf(r, "b", shop, job.OutcomeDelivered, ago(2*time.Hour)) // slower than those that began later
	type want = map[int][kinds]int64
	for _, c := range []struct {
		of     Of
		window int
		want   want
	}{
		{Of{}, hourly, want{58: {0, 2, 1, 0}, 59: {1, 0, 0, 0}}},
		{Of{}, daily, want{3: {1, 0, 0, 0}, 87: {1, 0, 0, 0}, 94: {0, 2, 1, 0}, 95: {1, 0, 0, 0}}},
		{Of{Topic: "a"}, hourly, want{58: {0, 1, 1, 0}}},
		{Of{Topic: "a"}, daily, want{3: {1, 0, 0, 0}, 94: {0, 1, 1, 0}}},
		{Of{Topic: "b"}, hourly, want{58: {0, 1, 0, 0}, 59: {1, 0, 0, 0}}},
		{Of{Endpoint: "https://other"}, hourly, want{59: {1, 0, 0, 0}}},
		{Of{Topic: "none"}, hourly, want{}},
		{Of{Topics: job.TopicSet{"a*"}}, hourly, want{58: {0, 1, 1, 0}}},
		{Of{Topics: job.TopicSet{"a", "b"}}, hourly, want{58: {0, 2, 1, 0}, 59: {1, 0, 0, 0}}},
	} {
		s := seriesOf(t, r, c.of, c.window, now)
		if diff := cmp.Diff(c.want, steps(s)); diff != "" || s.Partial {
			t.Errorf("%+v, %s, partial %v (-want +got):\n%s", c.of, s.Name, s.Partial, diff)
		}
	}
	if s := seriesOf(t, r, Of{}, daily, now); s.From != ago(95*15*time.Minute) {
		t.Errorf("the day begins %v before now", now.Sub(s.From))
	}
	if left := steps(seriesOf(t, r, Of{}, daily, now.Add(48*time.Hour))); len(left) != 0 {
		t.Errorf("two days later: %v", left)
	}
}

// The busiest topics have series. The others are said to be missing.
func TestSeriesAreBounded(t *testing.T) {
	r := New(Options{})
	for i := range 3 * Own {
		attemptOf(r, fmt.Sprint("t", i), fmt.Sprint("https://", i), job.OutcomeDelivered, at(0))
	}
	for range 3 {
		attemptOf(r, "busy", shop, job.OutcomeDelivered, at(0))
	}
	if s := seriesOf(t, r, Of{Topic: "busy"}, hourly, at(0)); !s.Partial || len(steps(s)) != 0 {
		t.Errorf("partial %v, %v", s.Partial, steps(s))
	}
	if s := seriesOf(t, r, Of{Topic: "t0"}, hourly, at(0)); s.Partial || s.Delivered[59] != 1 {
		t.Errorf("partial %v, %v", s.Partial, steps(s))
	}
	if s := seriesOf(t, r, Of{}, hourly, at(0)); s.Partial || s.Delivered[59] != 3*Own+3 {
		t.Errorf("partial %v, %v", s.Partial, steps(s))
	}
	// At the end of the period it gets the place of another one.
	attemptOf(r, "busy", shop, job.OutcomeDelivered, at(ownPeriod))
	attemptOf(r, "busy", shop, job.OutcomeDelivered, at(ownPeriod))
	if s := seriesOf(t, r, Of{Topic: "busy"}, daily, at(ownPeriod)); s.Partial || s.Delivered[95] == 0 {
		t.Errorf("partial %v, %v", s.Partial, steps(s))
	}
	if n, m := len(r.byTopic.of), len(r.byTarget.of); n > Own || m > Own {
		t.Errorf("%d topics and %d endpoints have series, want at most %d", n, m, Own)
	}
}

func TestNodesShareTheirSeries(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *counting, start func() (*Recorder, func())) {
		a, stopA := start()
		b, stopB := start()
		defer stopB()
		attemptOf(a, "a", shop, job.OutcomeDelivered, at(0))
		attemptOf(b, "a", shop, job.OutcomeFailed, at(0))
		pass(t, chartEvery*publishEvery)
		for _, r := range []*Recorder{a, b} {
			for _, of := range []Of{{}, {Topic: "a"}, {Endpoint: shop}} {
				if diff := cmp.Diff(map[int][kinds]int64{59: {1, 1, 0, 0}}, steps(seriesOf(t, r, of, hourly, at(0)))); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", of, diff)
				}
			}
		}
		// What was counted last is written on the way out.
		attemptOf(a, "a", shop, job.OutcomeDelivered, at(0))
		stopA()
		pass(t, othersFor)
		if got := seriesOf(t, b, Of{Topic: "a"}, daily, at(0)).Delivered[95]; got != 2 {
			t.Errorf("%d delivered, one by a node that has stopped", got)
		}
	})
}

// A node keeps its figures. The overview and the chart beside it have the same hour, also after a restart.
func TestSeriesOutliveARestart(t *testing.T) {
	mem := testenv.Store(t, diskstore.Options{})
	run := func() *Recorder { return New(Options{Documents: mem}) }
	first := run()
	attemptOf(first, "a", shop, job.OutcomeDelivered, at(0))
	first.publish(t.Context())
	first.publishCharts(t.Context())
	if got := seriesOf(t, run(), Of{Topic: "a"}, hourly, at(0)).Delivered[59]; got != 1 {
		t.Errorf("%d delivered before the restart", got)
	}
	second := run()
	attemptOf(second, "a", shop, job.OutcomeFailed, at(0))
	for name, r := range map[string]*Recorder{"restarted": run(), "with an attempt": second} {
		a, chart := activity(t, r, at(0)), seriesOf(t, r, Of{}, hourly, at(0))
		if rate, known := a.SuccessRate(); !known || a.Delivered[59] != 1 || rate != 1/float64(1+a.Failed[59]) {
			t.Errorf("%s: the overview has %v, %v of %d and %d", name, rate, known, a.Delivered[59], a.Failed[59])
		}
		if late, known := a.LateBy(1); !known || late != 5 {
			t.Errorf("%s: late by %d, %v", name, late, known)
		}
		if diff := cmp.Diff([][]int64{a.Delivered, a.Failed}, [][]int64{chart.Delivered, chart.Failed}); diff != "" {
			t.Errorf("%s (-overview +chart):\n%s", name, diff)
		}
		health, err := r.Health(t.Context())
		if err != nil || health[shop].LastSuccessAt != at(0) {
			t.Errorf("%s: health %v, %v", name, health, err)
		}
	}
	// However often it restarts, few documents stay.
	for i := range 2 * maxNodes {
		next := run()
		attemptOf(next, "a", shop, job.OutcomeDelivered, at(time.Duration(i)*ms))
		next.publishCharts(t.Context())
		next.tidy(t.Context())
	}
	if list, err := mem.ListDocuments(t.Context(), store.DocumentQuery{Kind: chartKind}); err != nil || len(list) != maxNodes {
		t.Errorf("%d documents, %v", len(list), err)
	}
}

// The document of a node whose places are all busy all day stays below 1 MB.
func TestPlainSizeOfSeries(t *testing.T) {
	mem := testenv.Store(t, diskstore.Options{})
	r := New(Options{Documents: mem})
	for minute := range 24 * 60 {
		for i := range Own {
			for _, kind := range []job.OutcomeKind{job.OutcomeDelivered, job.OutcomeFailed} {
				attemptOf(r, fmt.Sprint("orders-of-customer-", i), fmt.Sprintf("https://shop-%d.example:443", i), kind, at(time.Duration(minute)*time.Minute))
			}
		}
	}
	for _, of := range []named{r.byTopic, r.byTarget} { // thousands of each a minute
		for _, one := range of.of {
			for i := range one {
				for slot := range one[i].counts {
					one[i].counts[slot] = []uint32{54_321, 4_321, 321, 321}[slot%kinds]
				}
			}
		}
	}
	r.publishCharts(t.Context())
	list, err := mem.ListDocuments(t.Context(), store.DocumentQuery{Kind: chartKind})
	if err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	if n := len(list[0].Data); n > 1_000_000 {
		t.Errorf("%d bytes", n)
	}
	t.Logf("%d bytes", len(list[0].Data))
}
