package readylist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var errBroken = errors.New("made to fail")

// fake is a ready list. Its hooks may fail calls.
type fake struct {
	hints   []store.Hint
	claimed [][]string // of each try: the ids
	nonces  []string
	popHook func() error
	hook    func(hints []store.Hint) error
	large   int // most of the jobs whose ids begin with "large" in one claim; 0: any number
	carried []store.CarryResult
}

func (f *fake) push(topic string, ids ...string) {
	for _, id := range ids {
		f.hints = append(f.hints, store.Hint{Lane: job.Lane{Topic: topic, Endpoint: "http://e.example:80"}, ID: id})
	}
}

func (f *fake) Pop(ctx context.Context, _, limit int, wait time.Duration) ([]store.Hint, error) {
	if f.popHook != nil {
		if err := f.popHook(); err != nil {
			return nil, err
		}
	}
	if len(f.hints) == 0 && wait > 0 {
		if err := job.Sleep(ctx, job.SystemClock(), wait); err != nil {
			return nil, err
		}
	}
	n := min(limit, len(f.hints))
	hints := slices.Clone(f.hints[:n])
	f.hints = f.hints[n:]
	return hints, nil
}

func (f *fake) Return(ctx context.Context, _ int, hints []store.Hint) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.hints = slices.Concat(hints, f.hints)
	return nil
}

func (f *fake) Claim(_ context.Context, _ int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	f.claimed, f.nonces = append(f.claimed, idsOf(hints)), append(f.nonces, o.Nonce)
	if f.hook != nil {
		if err := f.hook(hints); err != nil {
			return nil, err
		}
	}
	var claims []store.Claimed
	var left []store.Hint
	large := 0
	for _, h := range hints {
		if f.large > 0 && strings.HasPrefix(h.ID, "large") {
			if large++; large > f.large {
				left = append(left, h)
				continue
			}
		}
		claims = append(claims, store.Claimed{Job: job.Job{Key: h.Key()}})
	}
	if len(left) > 0 {
		o.Left(left)
	}
	return claims, nil
}

func (f *fake) Carry(context.Context, int, store.CarryOptions) (store.CarryResult, error) {
	r := f.carried[0]
	f.carried = f.carried[1:]
	return r, nil
}

func idsOf(hints []store.Hint) []string {
	ids := make([]string, len(hints))
	for i := range hints {
		ids[i] = hints[i].ID
	}
	return ids
}

func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(prefix, i)
	}
	return ids
}

func of(f *fake) *Taker { return New(f, 0, job.SystemClock(), slog.New(slog.DiscardHandler)) }

// take takes jobs and returns their ids.
func take(t *testing.T, taker *Taker, o store.TakeOptions) ([]string, store.Taken) {
	t.Helper()
	taken, err := taker.Take(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range taken.Claims {
		ids = append(ids, taken.Claims[i].Job.ID)
	}
	return ids, taken
}

// in runs a test with virtual time.
func in(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestAFailedClaimIsRepeatedWithItsNonce(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{}
		taker := of(f)
		f.push("t", "a", "b")
		down := fmt.Errorf("%w: made to fail", store.ErrUnavailable)
		f.hook = func([]store.Hint) error { return down }
		const tries = 2 * claimTries
		for range tries {
			if _, err := taker.Take(t.Context(), store.TakeOptions{Max: 10}); !errors.Is(err, down) {
				t.Fatalf("error %v", err)
			}
			_ = job.Sleep(t.Context(), job.SystemClock(), time.Second)
		}
		f.hook = nil
		got, taken := take(t, taker, store.TakeOptions{Max: 10})
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || taken.Age != tries*time.Second {
			t.Errorf("age %v, taken (-want +got):\n%s", taken.Age, diff)
		}
		f.push("t", "c")
		take(t, taker, store.TakeOptions{Max: 10})
		nonces := slices.Compact(slices.Clone(f.nonces))
		if len(f.nonces) != tries+2 || len(nonces) != 2 {
			t.Errorf("nonces %q", f.nonces)
		}
	})
}

func TestAClaimThatTimesOutIsHalved(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{}
		taker := of(f)
		f.push("t", numbered("", 200)...)
		f.hook = func(hints []store.Hint) error {
			if len(hints) > 10 {
				return fmt.Errorf("%w: %w", store.ErrUnavailable, os.ErrDeadlineExceeded)
			}
			return nil
		}
		got, taken := take(t, taker, store.TakeOptions{Max: 500})
		if diff := cmp.Diff(numbered("", 200), got); diff != "" || taken.Wait != -1 {
			t.Errorf("wait %v, taken (-want +got):\n%s", taken.Wait, diff)
		}
		if len(slices.Compact(f.nonces)) != 1 {
			t.Error("parts of a claim have other nonces")
		}
		f.claimed = nil
		f.push("t", numbered("later", 100)...)
		if take(t, taker, store.TakeOptions{Max: 500}); len(f.claimed[0]) > 20 {
			t.Errorf("then %d jobs were claimed at once", len(f.claimed[0]))
		}
		f.hook = nil
		for range 8 {
			f.push("t", numbered("fast", 500)...)
			take(t, taker, store.TakeOptions{Max: 500})
		}
		if n := len(f.claimed[len(f.claimed)-1]); n != 500 {
			t.Errorf("%d jobs were claimed at once in the end", n)
		}
	})
}

func TestAJobThatCannotBeClaimedHoldsUpNoOther(t *testing.T) {
	in(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &fake{hook: func(hints []store.Hint) error {
			if slices.ContainsFunc(hints, func(h store.Hint) bool { return h.ID == "poison" }) {
				return errBroken
			}
			return nil
		}}
		taker := New(f, 0, job.SystemClock(), slog.New(slog.NewTextHandler(&log, nil)))
		f.push("t", "before", "poison", "after")
		var got []string
		for range 3 * claimTries {
			taken, err := taker.Take(t.Context(), store.TakeOptions{Max: 10})
			if err != nil && !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			for i := range taken.Claims {
				got = append(got, taken.Claims[i].Job.ID)
			}
		}
		if diff := cmp.Diff([]string{"before", "after"}, got); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "a job cannot be claimed"); n != 1 {
			t.Errorf("%d lines about it:\n%s", n, log.String())
		}
	})
}

func TestAPopThatFails(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{popHook: func() error { return errBroken }}
		if _, err := of(f).Take(t.Context(), store.TakeOptions{Max: 1, Wait: time.Second}); !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
	})
}

func TestHintsThatComeTwiceAreClaimedOnce(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{}
		f.push("t", "a", "b", "a")
		got, _ := take(t, of(f), store.TakeOptions{Max: 10})
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
	})
}

func TestLeftJobsAndOthersTakeTurns(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{large: 1}
		taker := of(f)
		f.push("t", numbered("large", 4)...)
		f.push("t", "a")
		var got []string
		for range 5 {
			f.push("t", fmt.Sprint("small", len(got)))
			ids, taken := take(t, taker, store.TakeOptions{Max: 5})
			got = append(got, strings.Join(ids, " "))
			if len(got) < 5 && taken.Wait != 0 {
				t.Errorf("wait %v while jobs are left", taken.Wait)
			}
		}
		want := []string{"large0 a", "large1", "small0 small1 small2", "large2", "small3 small4"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
	})
}

func TestWorkersAreShared(t *testing.T) {
	in(t, func(t *testing.T) {
		weights := map[string]int{"heavy": 80, "slow": 10, "well": 10}
		for _, tc := range []struct {
			name    string
			workers store.Workers
			want    map[string]int
		}{
			{name: "alone", workers: store.Workers{Free: 9}, want: map[string]int{"slow": 8, "well": 1}},
			{name: "has some", workers: store.Workers{Free: 5, Has: map[string]int{"slow": 4}}, want: map[string]int{"slow": 4, "well": 1}},
			{name: "at its share", workers: store.Workers{Free: 1, Has: map[string]int{"slow": 8}}, want: map[string]int{"well": 1}},
			{
				name:    "beside a heavier one",
				workers: store.Workers{Free: 9, Has: map[string]int{"heavy": 1}, Weight: func(topic string) int { return weights[topic] }},
				want:    map[string]int{"slow": 4, "well": 2},
			},
			{name: "without a free one", workers: store.Workers{Has: map[string]int{"slow": 8}}},
		} {
			f := &fake{}
			f.push("slow", numbered("s", 20)...)
			f.push("well", numbered("w", 20)...)
			_, taken := take(t, of(f), store.TakeOptions{Max: 500, Workers: &tc.workers})
			got := map[string]int{}
			for i := range taken.Claims {
				got[taken.Claims[i].Job.Topic]++
			}
			if diff := cmp.Diff(tc.want, got, cmp.Transformer("", func(m map[string]int) string { return fmt.Sprint(m) })); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
			if taken.Wait != 0 {
				t.Errorf("%s: wait %v while hints are set aside", tc.name, taken.Wait)
			}
		}
	})
}

// A hint that comes again, because its visibility deadline has passed, is set aside once. It is used when its topic
// may have more workers.
func TestAHintIsSetAsideOnce(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{}
		taker := of(f)
		busy := store.TakeOptions{Max: 500, Workers: &store.Workers{Free: 1, Has: map[string]int{"slow": 8}}, Wait: time.Minute}
		for range 3 {
			began := time.Now()
			f.push("slow", numbered("", 12)...)
			if got, _ := take(t, taker, busy); len(got) != 0 {
				t.Errorf("taken: %q", got)
			}
			if took := time.Since(began); took > 2*asideWait {
				t.Errorf("it waited %v", took)
			}
		}
		if n := len(taker.aside.keys); n != 12 {
			t.Errorf("%d hints are aside, want 12", n)
		}
		got, taken := take(t, taker, store.TakeOptions{Max: 500, Workers: &store.Workers{Free: 100}})
		if diff := cmp.Diff(numbered("", 12), got); diff != "" || taken.Wait != -1 {
			t.Errorf("wait %v, taken (-want +got):\n%s", taken.Wait, diff)
		}
		if len(taker.aside.keys)+len(taker.aside.hints)+len(taker.aside.topics) != 0 {
			t.Errorf("left: %+v", taker.aside)
		}
	})
}

// Many hints of one topic must not fill the memory.
func TestHintsSetAsideAreBounded(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{}
		taker := of(f)
		for i := range 50 {
			f.push("slow", numbered(fmt.Sprint(i, "-"), 500)...)
			take(t, taker, store.TakeOptions{Max: 500, Workers: &store.Workers{Free: 1, Has: map[string]int{"slow": 8}}})
		}
		if n := len(taker.aside.keys); n != maxAside/2 {
			t.Errorf("%d hints are aside, want %d", n, maxAside/2)
		}
	})
}

func TestHintsGoBackWhenTheCallerStops(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{large: 1}
		taker := of(f)
		f.push("t", numbered("large", 3)...)
		f.push("slow", "aside")
		take(t, taker, store.TakeOptions{Max: 4, Workers: &store.Workers{Free: 100, Has: map[string]int{"slow": 2000}}})
		f.push("t", "failed")
		f.hook = func([]store.Hint) error { return errBroken }
		taker.leftNext = false
		if _, err := taker.Take(t.Context(), store.TakeOptions{Max: 4, Workers: &store.Workers{Free: 1, Has: map[string]int{"slow": 2000}}}); !errors.Is(err, errBroken) {
			t.Fatalf("error %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if taken, err := taker.Take(ctx, store.TakeOptions{Max: 4}); !errors.Is(err, context.Canceled) || len(taken.Claims) != 0 {
			t.Errorf("taken %v, error %v", taken, err)
		}
		got := idsOf(f.hints)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"aside", "failed", "large1", "large2"}, got); diff != "" {
			t.Errorf("on the ready list (-want +got):\n%s", diff)
		}
	})
}

// A claim that has begun when its caller stops is completed.
func TestAClaimOutlastsItsCaller(t *testing.T) {
	in(t, func(t *testing.T) {
		f := &fake{}
		f.push("t", "a")
		ctx, stop := context.WithCancel(t.Context())
		f.hook = func([]store.Hint) error {
			stop()
			return job.Sleep(t.Context(), job.SystemClock(), finishWithin/2)
		}
		taken, err := of(f).Take(ctx, store.TakeOptions{Max: 1})
		if err != nil || len(taken.Claims) != 1 {
			t.Errorf("taken %v, error %v", taken, err)
		}
	})
}

// A caller that stops ends the wait at once.
func TestStoppingEndsTheWait(t *testing.T) {
	in(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		began := time.Now()
		if _, err := of(&fake{}).Take(ctx, store.TakeOptions{Max: 1, Wait: time.Hour}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPullQueues(t *testing.T) {
	in(t, func(t *testing.T) {
		one := []store.Carried{{Hint: store.Hint{Lane: job.Lane{Topic: "t", Endpoint: string(job.PullQueue)}, ID: "a"}}}
		f := &fake{carried: []store.CarryResult{{Wait: -1}, {Wait: time.Minute}, {Carried: one, Wait: time.Hour}, {Wait: 3 * time.Second}}}
		began := time.Now()
		got, taken := take(t, of(f), store.TakeOptions{Max: 9, Wait: time.Hour, Pull: []string{"t"}})
		if diff := cmp.Diff([]string{"a"}, got); diff != "" || taken.Wait != time.Hour || time.Since(began) != 2*pullPoll {
			t.Errorf("after %v, wait %v, taken (-want +got):\n%s", time.Since(began), taken.Wait, diff)
		}
		if got, taken := take(t, of(f), store.TakeOptions{Max: 9, Pull: []string{"t"}}); len(got) > 0 || taken.Wait != 3*time.Second {
			t.Errorf("taken %q, wait %v", got, taken.Wait)
		}
	})
}
