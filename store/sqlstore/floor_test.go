package sqlstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func TestFloor(t *testing.T) {
	f := floor{every: 10 * time.Second}
	now := job.SystemClock().Now()
	is := func(what string, want int64) {
		t.Helper()
		must.Equal(t, what, f.from(now), want)
	}
	is("the first call reads everything", 0)
	f.saw(reach{least: 1, highest: 10, running: 100, unborn: 110}, now)
	is("others may have lower values", 0)
	f.saw(reach{least: 11, highest: 20, running: 105, unborn: 120}, now)
	is("a transaction still runs", 0)
	f.saw(reach{least: 21, highest: 30, running: 110, unborn: 130}, now)
	is("all have ended", 10)
	f.saw(reach{least: 31, highest: 40, running: 125, unborn: 140}, now)
	is("some that began later run", 10)
	now = now.Add(floorLag)
	f.saw(reach{least: 41, highest: 50, running: 125, unborn: 150}, now)
	is("somebody holds a transaction open", 30)
	f.saw(reach{}, now)
	is("nothing was read", 30)
	now = now.Add(floorLag)
	bound, sweeps := f.peek(now)
	must.Equal(t, "the bound before everything is read", bound, 30)
	must.Equal(t, "everything is read", sweeps, true)
	is("now and then, everything is read", 0)
	f.saw(reach{least: 29, highest: 60, running: 160, unborn: 160}, now)
	is("a late one was found", 0)
	now = now.Add(floorLag)
	f.saw(reach{least: 61, highest: 61}, now)
	f.saw(reach{least: 62, highest: 62}, now)
	is("values without transactions", 0)
	now = now.Add(floorLag - 1)
	f.saw(reach{least: 63, highest: 63}, now)
	is("before the lag", 0)
	now = now.Add(1)
	f.saw(reach{least: 64, highest: 64}, now)
	must.Equal(t, "after the lag", f.bound, 61)
}

func TestReach(t *testing.T) {
	var r reach
	r.add(reach{running: 4, unborn: 5})
	must.Equal(t, "nothing was read", r, reach{})
	r.add(reach{least: 7, highest: 9, running: 4, unborn: 5})
	r.add(reach{least: 3, highest: 8, running: 6, unborn: 7})
	must.Equal(t, "both", r, reach{least: 3, highest: 9, running: 4, unborn: 7})
}

// A job that becomes visible after others with higher numbers is found, though the bound is above it.
func TestLateCommitIsFolded(t *testing.T) {
	s := openStore(t, newOptions())
	register(t, s, due("t", "http://a.example/", 1))
	must.Equal(t, "claims", len(take(t, s, terms(5)).Claims), 1)
	s.folds.bound = 1 << 40
	register(t, s, due("late", "http://a.example/", 1))
	must.Equal(t, "claims below the bound", len(take(t, s, terms(5)).Claims), 0)
	must.Equal(t, "quiet, while everything was read not long ago", s.isQuiet(t.Context()), true)
	s.folds.swept = time.Time{}
	must.Equal(t, "quiet, when everything is to be read", s.isQuiet(t.Context()), false)
	must.Equal(t, "claims", len(take(t, s, terms(5)).Claims), 1)
	must.Equal(t, "the bound", s.folds.bound, 0)
}

// While somebody holds a transaction open, old versions of rows stay. What a take reads does not grow with them.
func TestTakeBesideOldVersions(t *testing.T) {
	o := newOptions()
	s := openStore(t, o)
	oneConnection(t, s)
	s.folds.every = time.Hour
	other, err := pgx.Connect(t.Context(), o.URL)
	must.OK(t, err)
	defer func() { must.OK(t, other.Close(context.WithoutCancel(t.Context()))) }()
	_, err = other.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`)
	must.OK(t, err)
	read := func() int { // entries of indexes, those of old versions too
		exec(t, s, `SELECT pg_stat_force_next_flush()`)
		return one[int](t, s, `SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = split_part('duehook.', '.', 1)`)
	}
	n := 0
	round := func() {
		t.Helper()
		n++
		regs := due("t", "http://a.example/", 2)
		for i := range regs {
			regs[i].Key.ID = fmt.Sprint("job-", n, "-", i)
		}
		register(t, s, regs)
		taken := take(t, s, terms(5))
		var settlements []job.Settlement
		for i := range taken.Claims {
			settlements = append(settlements, delivered(&taken.Claims[i].Job))
		}
		_, err := s.Settle(t.Context(), settlements)
		must.OK(t, err)
	}
	rounds := func() int {
		before := read()
		for range 10 {
			round()
		}
		return read() - before
	}
	rounds()
	early := rounds()
	for range 10 {
		rounds()
	}
	late := rounds()
	t.Logf("ten takes read %d entries of indexes, and then %d", early, late)
	if early == 0 || late > 2*early {
		t.Errorf("ten takes read %d entries of indexes beside few old versions, and %d beside many", early, late)
	}
}
