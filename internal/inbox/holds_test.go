package inbox

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/testing/must"
)

// TestPauses: the pause doubles while all rows of a name are refused, and begins anew after one that was taken.
func TestPauses(t *testing.T) {
	now := time.Now()
	all := newHolds([]string{"t"}, now)
	for i, want := range []float64{1, 2, 4, 8, 16, 30, 30, 1, 2} {
		must.Equal(t, "a name whose wait is over", all.over(now), "t")
		if i == 7 {
			all.took("t")
		}
		must.OK(t, all.refuse("t", now))
		must.Equal(t, "the pause", all["t"].until.Sub(now).Seconds(), want)
		now = all["t"].until.Add(-1)
		must.Equal(t, "a wait that is over too early", all.over(now), "")
		now = now.Add(1)
	}
}

// TestWaitInOrder: a row follows those that wait for its topic, and one of them is tried only when the wait is over.
func TestWaitInOrder(t *testing.T) {
	now := time.Now()
	of := func(all holds, waited string) string {
		return all.of(&work{row: row{waited: waited}, reg: Registration{Fan: &app.FanOut{Topic: "t", ID: "a"}}}, now)
	}
	over := newHolds([]string{"t"}, now)
	must.Equal(t, "a new row waits for", of(over, ""), "t")
	must.Equal(t, "the first of those that wait is tried: it waits for", of(over, "t"), "")
	must.OK(t, over.refuse("t", now))
	must.Equal(t, "after a refusal, the next one waits for", of(over, "t"), "t")
	must.Equal(t, "a row whose job is in flight waits for", of(newHolds([]string{"t/a"}, now), ""), "t/a")
	must.Equal(t, "a row of a job that is no longer in flight waits for", of(newHolds([]string{"t", "t/a"}, now), "t/a"), "t")
}
