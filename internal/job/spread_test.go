package job_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Nodes of all versions must agree on these.
func TestShare(t *testing.T) {
	for _, tt := range []struct {
		id     string
		spread time.Duration
		want   time.Duration
	}{
		{"t/a", 0, 0},
		{"t/a", time.Nanosecond, 0},
		{"t/a", 5 * time.Minute, 215_143 * time.Millisecond},
		{"t/b", 5 * time.Minute, 60_737 * time.Millisecond},
		{"t/a", job.MaxSpread, 10_328_304 * time.Millisecond},
	} {
		if got := job.Share(tt.id, tt.spread); got != tt.want {
			t.Errorf("Share(%q, %v) is %v, want %v", tt.id, tt.spread, got, tt.want)
		}
	}
}

func TestSharesAreEvenlyDistributed(t *testing.T) {
	const jobs, parts, spread = 100_000, 100, 10 * time.Second
	var counts [parts]int
	for i := range jobs {
		share := job.Share(fmt.Sprintf("t/order-%d", i), spread)
		if share < 0 || share > spread {
			t.Fatalf("a share of %v", share)
		}
		counts[min(parts-1, int(share*parts/spread))]++
	}
	for part, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("%d of %d jobs fell into part %d of %d", n, jobs, part, parts)
		}
	}
}

func TestSpreadDueTimes(t *testing.T) {
	key := job.Key{Topic: "t", ID: "a"}
	const share = 215_143 * time.Millisecond
	for name, tt := range map[string]struct {
		when job.When
		want job.Instant
	}{
		"now":                 {job.When{Spread: 5 * time.Minute}, now.Add(share)},
		"a delay":             {job.When{Delay: time.Hour, Spread: 5 * time.Minute}, now.Add(time.Hour + share)},
		"an instant":          {job.When{At: now + 7, Spread: 5 * time.Minute}, now.Add(share) + 7},
		"a recent instant":    {job.When{At: now - 1000, Spread: 5 * time.Minute}, now.Add(share) - 1000},
		"an instant long ago": {job.When{At: 1, Spread: 5 * time.Minute}, now},
		"no spread":           {job.When{At: now + 7}, now + 7},
	} {
		if got := tt.when.Due(key, now); got != tt.want {
			t.Errorf("%s: due at %d, want %d", name, got, tt.want)
		}
	}
}

// The due time that a client sets is spread; the one of "run now" is not.
func TestChangesAreSpread(t *testing.T) {
	const share = 215_143 * time.Millisecond
	spread := job.When{At: now.Add(time.Hour), Spread: 5 * time.Minute}
	j := jobIn(job.Waiting, 0)
	j.Key = job.Key{Topic: "t", ID: "a"}
	j.Spec.When = spread
	want := now.Add(time.Hour + share)
	if err := j.Reschedule(spread, now); err != nil || j.NextAt != want || j.DueAt != want {
		t.Errorf("due at %d, next %d, want %d: %v", j.DueAt, j.NextAt, want, err)
	}
	if moved, err := j.MoveDue(spread, true, now); moved || err != nil {
		t.Errorf("the same time again moved the job: %v, %v", moved, err)
	}
	if err := j.Reschedule(job.When{}, now); err != nil || j.NextAt != now {
		t.Errorf("run now makes it due at %d: %v", j.NextAt, err)
	}
	ended := jobIn(job.Dead, 0)
	ended.Key = j.Key
	if err := ended.ReplayAs(j.Spec, &spread, now); err != nil || ended.NextAt != want {
		t.Errorf("replayed for %d, want %d: %v", ended.NextAt, want, err)
	}
}

func TestPatchOfSpread(t *testing.T) {
	j := registered()
	j.Spec.When = job.When{Delay: time.Hour, Spread: time.Minute}
	for doc, want := range map[string]job.When{
		`{"delay":60}`:                  {Delay: time.Minute, Spread: time.Minute},
		`{"delay":60,"spread":"2m"}`:    {Delay: time.Minute, Spread: 2 * time.Minute},
		`{"delay":60,"spread":"0s"}`:    {Delay: time.Minute},
		`{"at":"2027-01-15T09:00:00Z"}`: {At: 1_800_003_600_000, Spread: time.Minute},
	} {
		spec, when, err := draft(t, doc).Patch(&j, limits, now)
		if err != nil || when == nil || *when != want || spec.When != want {
			t.Errorf("%s: due %v, registered %v, want %v: %v", doc, when, spec.When, want, err)
		}
	}
}
