package retrypolicy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/retrypolicy"
)

// ladder is a file of testdata/ladders; durations are written as settings are.
type ladder struct {
	About  string `json:"about"`
	Server string `json:"server"`
	Retry  *struct {
		Steps []string `json:"steps"`
		Limit *int     `json:"limit"`
	} `json:"retry"`
	MaxAttempts int    `json:"max_attempts"`
	Delays      string `json:"delays"`
	Since       string `json:"since_first_failure"`
}

func TestLadders(t *testing.T) {
	files, err := filepath.Glob("../testdata/ladders/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no ladders: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { testLadder(t, readLadder(t, file)) })
	}
}

func readLadder(t *testing.T, file string) ladder {
	content, err := os.ReadFile(file)
	must.OK(t, err)
	var l ladder
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	must.OK(t, dec.Decode(&l))
	return l
}

func testLadder(t *testing.T, l ladder) {
	steps, err := job.ParseLadder(l.Server)
	must.OK(t, err)
	url := job.Destination("http://a")
	d := job.Draft{Destination: &url}
	if l.Retry != nil {
		d.Retry = &job.Retry{Limit: l.Retry.Limit}
		for _, text := range l.Retry.Steps {
			step, err := job.ParseDuration(text)
			must.OK(t, err)
			d.Retry.Steps = append(d.Retry.Steps, step)
		}
	}
	r, err := d.Registration(job.Bounds{}, 1)
	must.OK(t, err)
	p := retrypolicy.Policy{Steps: steps, Limit: len(steps)}.For(r.Spec.Retry)
	if err := p.Validate(); err != nil {
		t.Error(err)
	}

	var delays []time.Duration
	for n := 1; ; n++ {
		d, more := p.Next(n, nil)
		if !more {
			break
		}
		delays = append(delays, d)
	}
	must.Equal(t, "delays", job.FormatLadder(delays), l.Delays)
	if got := p.MaxAttempts(); got != l.MaxAttempts || got != len(delays)+1 {
		t.Errorf("%d attempts, %d retries; want %d attempts", got, len(delays), l.MaxAttempts)
	}
	const failed = job.Instant(1_800_000_000_000)
	var since []time.Duration
	for _, a := range p.ForecastAfter(1, retrypolicy.At(failed), 0).Attempts {
		since = append(since, a.Earliest.Sub(failed))
		must.Equal(t, fmt.Sprintf("attempt %d from", a.Number), a.Latest, a.Earliest)
	}
	must.Equal(t, "plan", job.FormatLadder(since), l.Since)
}

func TestDefault(t *testing.T) {
	p := retrypolicy.Default()
	if got, want := job.FormatLadder(p.Steps), readLadder(t, "../testdata/ladders/default.json").Delays; got != want {
		t.Errorf("the default ladder is %s, want %s", got, want)
	}
	if p.Limit != 9 || p.Jitter != 0.1 || p.Validate() != nil {
		t.Errorf("limit %d, jitter %v: %v", p.Limit, p.Jitter, p.Validate())
	}
	p.Steps[0] = 0
	if retrypolicy.Default().Steps[0] == 0 {
		t.Error("a change of one default ladder changes the next")
	}
}

func TestForKeepsTheServersPolicy(t *testing.T) {
	p, limit := retrypolicy.Default(), 2
	for name, got := range map[string]retrypolicy.Policy{
		"no retry settings": p.For(nil),
		"empty ones":        p.For(&job.Retry{}),
	} {
		must.Same(t, name, got, p)
	}
	want := retrypolicy.Policy{Steps: []time.Duration{time.Second}, Limit: 2, Jitter: p.Jitter}
	got := p.For(&job.Retry{Steps: []time.Duration{time.Second}, Limit: &limit})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestJitter(t *testing.T) {
	p := retrypolicy.Policy{Steps: []time.Duration{10 * time.Second}, Limit: 1, Jitter: 0.1}
	for r, want := range map[float64]time.Duration{
		0: 9 * time.Second, 0.25: 9500 * time.Millisecond, 0.5: 10 * time.Second, 0.75: 10500 * time.Millisecond,
	} {
		if got, more := p.Next(1, func() float64 { return r }); got != want || !more {
			t.Errorf("random %v: %v, %v; want %v", r, got, more, want)
		}
	}
	p.Jitter = 1
	if got, _ := p.Next(1, func() float64 { return 0 }); got != time.Millisecond {
		t.Errorf("the shortest delay is %v, want 1ms", got)
	}
}

func TestNextOutsideTheLadder(t *testing.T) {
	p := retrypolicy.Policy{Steps: []time.Duration{time.Second, time.Minute}, Limit: 2}
	if got, more := p.Next(0, nil); got != time.Second || !more {
		t.Errorf("before any attempt: %v, %v; want the first step", got, more)
	}
	if got, more := p.Next(3, nil); got != 0 || more {
		t.Errorf("after the last attempt: %v, %v", got, more)
	}
	if got, more := (retrypolicy.Policy{Limit: 5}).Next(1, nil); got != 0 || more {
		t.Errorf("without steps: %v, %v", got, more)
	}
}

func TestNextStaysNearItsStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retrypolicy.Policy{
			Steps: rapid.SliceOfN(rapid.Map(rapid.Int64Range(1, job.MaxRetryStep.Milliseconds()), func(ms int64) time.Duration {
				return time.Duration(ms) * time.Millisecond
			}), 1, job.MaxRetrySteps).Draw(t, "steps"),
			Limit:  rapid.IntRange(0, job.MaxRetryLimit).Draw(t, "limit"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		must.OK(t, p.Validate())
		n := rapid.IntRange(1, job.MaxRetryLimit+1).Draw(t, "n")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		got, more := p.Next(n, func() float64 { return random })
		if more != (n < p.MaxAttempts()) {
			t.Fatalf("after attempt %d of %d: more is %v", n, p.MaxAttempts(), more)
		}
		if !more {
			return
		}
		step := p.Steps[min(n, len(p.Steps))-1]
		around := time.Duration(float64(step)*p.Jitter) + time.Millisecond
		if got < time.Millisecond || got%time.Millisecond != 0 || got < step-around || got > step+around {
			t.Fatalf("%v with jitter %v became %v", step, p.Jitter, got)
		}
		p.Jitter = 0
		if exact, _ := p.Next(n, nil); exact != step {
			t.Fatalf("without jitter %v became %v", step, exact)
		}
		if f := p.Forecast(1, retrypolicy.At(1), 0); len(f.Attempts) != p.MaxAttempts() {
			t.Fatalf("the forecast has %d attempts, want %d", len(f.Attempts), p.MaxAttempts())
		}
	})
}

func TestValidate(t *testing.T) {
	valid := retrypolicy.Default
	for name, change := range map[string]func(p *retrypolicy.Policy){
		"1 to 64 steps": func(p *retrypolicy.Policy) { p.Steps = nil },
		"to 64 steps":   func(p *retrypolicy.Policy) { p.Steps = make([]time.Duration, 65) },
		"from 1ms":      func(p *retrypolicy.Policy) { p.Steps[8] = time.Microsecond },
		"to 30d":        func(p *retrypolicy.Policy) { p.Steps[0] = job.MaxRetryStep + time.Millisecond },
		"from 0 to":     func(p *retrypolicy.Policy) { p.Limit = -1 },
		"to 1000":       func(p *retrypolicy.Policy) { p.Limit = 1001 },
		"jitter":        func(p *retrypolicy.Policy) { p.Jitter = -0.1 },
		"from 0 to 1":   func(p *retrypolicy.Policy) { p.Jitter = 1.1 },
		"the jitter":    func(p *retrypolicy.Policy) { p.Jitter = math.NaN() },
	} {
		p := valid()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v; want an error with %q", err, name)
		}
	}
	p := valid()
	p.Limit, p.Jitter = 1000, 1
	if err := p.Validate(); err != nil {
		t.Errorf("a policy at its limits: %v", err)
	}
}

// A retry counts from the failure before it, and the tenth attempt is the last.
func TestJobThatAlwaysFails(t *testing.T) {
	p := retrypolicy.Default()
	p.Jitter = 0
	const first, took = job.Instant(1_800_000_000_000), 2 * time.Second
	j, now := job.Job{State: job.Running}, first
	var delays []time.Duration
	for range p.MaxAttempts() {
		now = now.Add(took)
		s := job.Settle(&j, job.Outcome{Kind: job.OutcomeFailed}, func(n int) (time.Duration, bool) { return p.Next(n, nil) })
		j.State, j.Attempts, j.Reason = s.To, s.Attempts, s.Reason
		if s.To == job.Retrying {
			delays = append(delays, s.Delay)
			now = now.Add(s.Delay)
		}
	}
	if j.State != job.Dead || j.Reason != job.ReasonRetryLimit || j.Attempts != 10 {
		t.Errorf("%v (%s) after %d attempts; want dead after 10", j.State, j.Reason, j.Attempts)
	}
	if diff := cmp.Diff(p.Steps, delays); diff != "" {
		t.Error(diff)
	}
	if got, want := now.Sub(first), 25*time.Hour+13*time.Minute+15*time.Second+10*took; got != want {
		t.Errorf("given up after %v, want %v", got, want)
	}
}

// However often its receiver comes and goes, a job keeps most of its ladder.
func TestLeastWait(t *testing.T) {
	p := retrypolicy.Default()
	var waits []time.Duration
	for n := range p.MaxAttempts() {
		waits = append(waits, p.LeastWait(n))
	}
	want := []time.Duration{
		0, 0, 15 * time.Second, 3 * time.Minute, 10 * time.Minute, 10 * time.Minute, 10 * time.Minute, 10 * time.Minute,
		10 * time.Minute, 10 * time.Minute,
	}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Error(diff)
	}
	must.Equal(t, "first step", p.FirstStep(), 15*time.Second)
	var none retrypolicy.Policy
	if none.FirstStep() != 0 || none.LeastWait(5) != 0 {
		t.Error("a policy without steps has waits")
	}
}
