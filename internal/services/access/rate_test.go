package access

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"100/1s":    {100, time.Second},
		"100/s":     {100, time.Second},
		"1/1d":      {1, 24 * time.Hour},
		"90/1m30s":  {90, 90 * time.Second},
		"7/PT10M":   {7, 10 * time.Minute},
		"1000000/h": {1_000_000, time.Hour},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseRate(got.String()); err != nil || again != got {
			t.Errorf("%v is written %q, which is read as %v, %v", got, got.String(), again, err)
		}
	}
	for _, text := range []string{
		"", "0", "100", "100/", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "1000001/s", "99999999999999999999/s",
		"1/0s", "1/500ms", "1/1500ms", "1/2d", "1/x", "1/5", "1/s/s", "1 / s",
	} {
		if got, err := ParseRate(text); !errors.Is(err, errRate) || got != (Rate{}) {
			t.Errorf("ParseRate(%q) = %v, %v", text, got, err)
		}
	}
	if got := (Rate{}).String(); got != "" {
		t.Errorf("no limit is written %q", got)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"100/1s", "1/d", "9/PT1M", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Errorf("%q: %v is written %q, which is read as %v, %v", s, r, r.String(), again, err)
		}
	})
}

func TestQuota(t *testing.T) {
	clock := newTestClock()
	token, key := issue(t, func(k *Key) { k.Rate = Rate{3, 6 * time.Second} }) // one in 2 s
	k := newKeys(t, Options{Keys: []Key{key}, Clock: clock, Rate: Rate{1000, time.Second}})
	p := mustAuthenticate(t, k, token)
	for _, c := range []struct {
		after                                  time.Duration
		allowed                                bool
		remaining                              int
		more                                   time.Duration
		limitHeader, policyHeader, retryHeader string
	}{
		{0, true, 2, 2 * time.Second, `"key";r=2;t=2`, `"key";q=3;w=6`, ""},
		{500 * time.Millisecond, true, 1, 1500 * time.Millisecond, `"key";r=1;t=2`, `"key";q=3;w=6`, ""},
		{0, true, 0, 1500 * time.Millisecond, `"key";r=0;t=2`, `"key";q=3;w=6`, ""},
		{0, false, 0, 1500 * time.Millisecond, `"key";r=0;t=2`, `"key";q=3;w=6`, "2"},
		{time.Second, false, 0, 500 * time.Millisecond, `"key";r=0;t=1`, `"key";q=3;w=6`, "1"},
		{500 * time.Millisecond, true, 0, 2 * time.Second, `"key";r=0;t=2`, `"key";q=3;w=6`, ""},
		{time.Hour, true, 2, 2 * time.Second, `"key";r=2;t=2`, `"key";q=3;w=6`, ""},
	} {
		clock.Advance(c.after)
		q := k.Take(p)
		if diff := cmp.Diff(Quota{Rate: key.Rate, Allowed: c.allowed, Remaining: c.remaining, More: c.more}, q); diff != "" {
			t.Fatal(diff)
		}
		got := http.Header{}
		q.SetHeaders(got)
		want := http.Header{"Ratelimit": {c.limitHeader}, "Ratelimit-Policy": {c.policyHeader}}
		if c.retryHeader != "" {
			want["Retry-After"] = []string{c.retryHeader}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestServersRateIsForKeysWithoutTheirOwn(t *testing.T) {
	token, key := issue(t)
	k := newKeys(t, Options{Keys: []Key{key}, Rate: Rate{5, time.Minute}})
	if q := k.Take(mustAuthenticate(t, k, token)); q.Rate != (Rate{5, time.Minute}) || q.Remaining != 4 {
		t.Errorf("got %+v", q)
	}
	unlimited := newKeys(t, Options{Keys: []Key{key}})
	q := unlimited.Take(mustAuthenticate(t, unlimited, token))
	h := http.Header{}
	if q.SetHeaders(h); !q.Allowed || len(h) > 0 {
		t.Errorf("without any limit: %+v, %v", q, h)
	}
}

// A client that does what the headers say is never refused, and one that does
// not gets no more than the bucket and what flows into it.
func TestLimiterAgainstItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{rapid.IntRange(1, 500).Draw(t, "requests"), time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second}
		l := newLimiter(r)
		start := time.Unix(1_767_258_000, 0)
		now, taken := start, 0
		var last Quota
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			obeyed := false
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0: // as the headers say: Retry-After is in whole seconds
				if last.Remaining == 0 {
					h := http.Header{}
					last.SetHeaders(h)
					seconds, _ := strconv.Atoi(h.Get("Retry-After"))
					now = now.Add(max(time.Duration(seconds)*time.Second, last.More))
				}
				obeyed = true
			case 1:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(r.Per)).Draw(t, "pause")))
			}
			q := l.take(now)
			if obeyed && !q.Allowed {
				t.Fatalf("a client that waited as told after %+v is refused: %+v", last, q)
			}
			if q.Remaining < 0 || q.Remaining >= r.Requests || q.More <= 0 || q.More > r.Per/time.Duration(r.Requests)+1 || !q.Allowed && q.Remaining > 0 {
				t.Fatalf("%v: %+v", r, q)
			}
			if q.Allowed {
				taken++
			}
			if most := float64(r.Requests) + now.Sub(start).Seconds()*r.perSecond() + 1e-6; float64(taken) > most {
				t.Fatalf("%d requests were let through in %v; at most %f are allowed", taken, now.Sub(start), most)
			}
			last = q
		}
	})
}

func TestLimitHoldsForConcurrentCallers(t *testing.T) {
	clock := newTestClock()
	token, key := issue(t, func(k *Key) { k.Rate = Rate{100, time.Hour} })
	k := newKeys(t, Options{Keys: []Key{key}, Clock: clock})
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if k.Take(mustAuthenticate(t, k, token)).Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := allowed.Load(); got != 100 {
		t.Errorf("%d of 400 requests were let through, want 100", got)
	}
}

func TestRateErrorSaysWhatToWrite(t *testing.T) {
	_, err := ParseRate("fast")
	for _, part := range []string{`"100/1s"`, strconv.Itoa(maxRequests), "1d"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
}
