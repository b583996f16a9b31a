package job_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

var events = []job.Event{
	job.Carry, job.Claim, job.Deliver, job.Fail, job.GiveUp, job.Expire,
	job.Release, job.Cancel, job.Reschedule, job.Replay, job.Discard, job.Finish,
}

// now is when the tests take place.
const now = job.Instant(1_800_000_000_000)

// arrow is one change of state.
type arrow struct {
	from job.State
	on   job.Event
	to   job.State
}

func (a arrow) String() string { return fmt.Sprintf("%v --%v--> %v", a.from, a.on, a.to) }

func tableArrows() []arrow {
	var all []arrow
	for _, s := range job.Lifecycle {
		for _, to := range s.To {
			all = append(all, arrow{s.From, s.On, to})
		}
	}
	return sortArrows(all)
}

func sortArrows(all []arrow) []arrow {
	slices.SortFunc(all, func(a, b arrow) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.on, b.on), cmp.Compare(a.to, b.to))
	})
	return slices.Compact(all)
}

func TestNamesOfStatesAndEvents(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range job.States {
		got, ok := job.ParseState(s.String())
		if !ok || got != s {
			t.Errorf("ParseState(%q) = %v, %v", s, got, ok)
		}
		seen[s.String()] = true
	}
	if len(seen) != 8 {
		t.Errorf("there are %d states by name, want 8: %v", len(seen), seen)
	}
	for _, name := range []string{"", "Waiting", "state(8)", "running "} {
		if s, ok := job.ParseState(name); ok {
			t.Errorf("ParseState(%q) = %v, want none", name, s)
		}
	}
	must.Equal(t, "an unknown state is called", job.State(200).String(), "state(200)")
	for _, e := range events {
		seen[e.String()] = true
	}
	if len(seen) != 8+len(events) {
		t.Errorf("events and states share names: %v", seen)
	}
	must.Equal(t, "an unknown event is called", job.Event(200).String(), "event(200)")
}

// Stores write these numbers down.
func TestCodesOfUnfinishedStates(t *testing.T) {
	for code, s := range []job.State{job.Waiting, job.Retrying, job.Ready, job.Running} {
		if int(s) != code || s.Final() {
			t.Errorf("%v has code %d, final %v; want %d, unfinished", s, s, s.Final(), code)
		}
	}
	for _, s := range []job.State{job.Delivered, job.Dead, job.Cancelled, job.Expired} {
		if !s.Final() {
			t.Errorf("%v is not final", s)
		}
	}
}

// allowed reports whether the lifecycle has a step from from to to on event e.
func allowed(from job.State, e job.Event, to job.State) bool {
	return slices.ContainsFunc(job.Lifecycle, func(s job.Step) bool { return s.From == from && s.On == e && slices.Contains(s.To, to) })
}

func TestLifecycleTable(t *testing.T) {
	type cell struct {
		from job.State
		on   job.Event
	}
	rows := map[cell][]job.State{}
	for _, s := range job.Lifecycle {
		c := cell{s.From, s.On}
		if _, twice := rows[c]; twice {
			t.Errorf("%v on %v stands twice in the table", s.From, s.On)
		}
		if len(s.To) == 0 {
			t.Errorf("%v on %v leads nowhere", s.From, s.On)
		}
		rows[c] = s.To
	}
	for _, from := range job.States {
		for _, on := range events {
			may := on == job.Replay || on == job.Discard && from == job.Dead
			if to := rows[cell{from, on}]; from.Final() && may != (len(to) > 0) {
				t.Errorf("%v on %v leads to %v: an ended job can be replayed, a dead letter discarded, and nothing else", from, on, to)
			}
		}
	}
}

func TestLifecycleReaches(t *testing.T) {
	for _, from := range job.States {
		reached := map[job.State]bool{from: true}
		for range job.States {
			for _, a := range tableArrows() {
				if reached[a.from] {
					reached[a.to] = true
				}
			}
		}
		if len(reached) != len(job.States) {
			t.Errorf("from %v the lifecycle reaches only %v", from, reached)
		}
	}
}

// The code must make every change that the table has, and no other. Carry and
// Claim are the stores' to make.
func TestCodeMakesTheTable(t *testing.T) {
	var made []arrow
	for _, from := range job.States {
		for attempts := range 2 {
			if from == job.Waiting && attempts > 0 || from == job.Retrying && attempts == 0 {
				continue
			}
			made = append(made, commandArrows(t, from, attempts)...)
			if from == job.Running {
				made = append(made, outcomeArrows(attempts)...)
			}
		}
	}
	want := slices.DeleteFunc(tableArrows(), func(a arrow) bool { return a.on == job.Carry || a.on == job.Claim })
	must.Same(t, "the table (-) and the code (+) differ", sortArrows(made), want, gocmp.AllowUnexported(arrow{}))
}

// commandArrows is what the client's commands make of a job in a state. A
// refused command must leave the job as it was.
func commandArrows(t *testing.T, from job.State, attempts int) []arrow {
	commands := []struct {
		on  job.Event
		run func(j *job.Job) error
	}{
		{job.Cancel, func(j *job.Job) error { _, err := j.Cancel(now); return err }},
		{job.Reschedule, func(j *job.Job) error { return j.Reschedule(job.When{Delay: time.Minute}, now) }},
		{job.Reschedule, func(j *job.Job) error { return j.Respecify(job.Spec{Destination: "http://other"}) }},
		{job.Replay, func(j *job.Job) error { return j.Replay(now) }},
		{job.Replay, func(j *job.Job) error {
			return j.ReplayAs(job.Spec{Destination: "http://other"}, &job.When{Delay: time.Minute}, now)
		}},
		{job.Discard, func(j *job.Job) error { return j.Discard(now) }},
		{job.Finish, func(j *job.Job) error { return j.Finish(now) }},
	}
	var made []arrow
	for _, c := range commands {
		j := jobIn(from, attempts)
		before := j
		if err := c.run(&j); err == nil {
			made = append(made, arrow{from, c.on, j.State})
		} else if diff := gocmp.Diff(before, j); diff != "" {
			t.Errorf("%v refused %v (%v) but changed the job:\n%s", from, c.on, err, diff)
		}
	}
	return made
}

// outcomeArrows is what every outcome makes of a running job, with and without
// a cancel noted meanwhile.
func outcomeArrows(attempts int) []arrow {
	var made []arrow
	for _, o := range outcomes {
		for _, more := range []bool{true, false} {
			j := jobIn(job.Running, attempts)
			s := job.Settle(&j, o, fixedRetry(more))
			made = append(made,
				arrow{job.Running, eventOf(o.Kind, s), s.To},
				arrow{job.Running, cancelledEvent(o.Kind, s.IfCancelled), s.IfCancelled})
		}
	}
	return made
}

var outcomes = []job.Outcome{
	{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1, Status: 200}},
	{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: 1, Status: 500}},
	{Kind: job.OutcomeFailed, After: time.Minute},
	{Kind: job.OutcomeRefused, Reason: job.ReasonGone, Attempt: &job.Attempt{Number: 1, Status: 410}},
	{Kind: job.OutcomeRefused, Reason: job.ReasonBlocked},
	{Kind: job.OutcomeSnoozed, After: time.Minute},
	{Kind: job.OutcomeSnoozed},
	{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown},
	{Kind: job.OutcomeReleased, Reason: job.ReasonCircuitOpen, After: time.Minute},
	{Kind: job.OutcomeExpired},
	{Kind: job.OutcomeCancelled},
	{Kind: job.OutcomeLeaseExpired},
}

// eventOf names the event by which a settlement is known in the lifecycle.
func eventOf(k job.OutcomeKind, s job.Settlement) job.Event {
	switch {
	case k == job.OutcomeDelivered:
		return job.Deliver
	case k == job.OutcomeExpired:
		return job.Expire
	case k == job.OutcomeCancelled:
		return job.Cancel
	case k == job.OutcomeReleased, s.Reason == job.ReasonSnoozed:
		return job.Release
	case s.To == job.Dead:
		return job.GiveUp
	}
	return job.Fail
}

// cancelledEvent is the event when a cancel was noted: a delivery that
// happened stays one.
func cancelledEvent(k job.OutcomeKind, to job.State) job.Event {
	if k == job.OutcomeDelivered && to == job.Delivered {
		return job.Deliver
	}
	return job.Cancel
}

func fixedRetry(more bool) func(int) (time.Duration, bool) {
	return func(int) (time.Duration, bool) { return 15 * time.Second, more }
}

// jobIn is a job such as stores give it, in a state.
func jobIn(s job.State, attempts int) job.Job {
	j := job.Job{
		Key: job.Key{Topic: "orders", ID: "8812"}, UID: "01J", State: s, Attempts: attempts,
		Spec:      job.Spec{Destination: "http://shop.example/hook", BizKey: "b"},
		CreatedAt: now - 2000, DueAt: now - 1000, NextAt: now - 1000, Token: 7, Version: 3,
	}
	if s.Final() {
		j.NextAt, j.EndedAt, j.Reason = 0, now-500, "some"
	}
	return j
}

func TestCommandErrors(t *testing.T) {
	for _, s := range job.States {
		var finished, inFlight, notEnded error
		switch {
		case s.Final():
			finished = job.ErrFinished
			inFlight = job.ErrFinished
		case s == job.Running:
			inFlight, notEnded = job.ErrInFlight, job.ErrNotEnded
		default:
			notEnded = job.ErrNotEnded
		}
		j := jobIn(s, 0)
		if err := j.Replay(now); !errors.Is(err, notEnded) {
			t.Errorf("Replay of a %v job: %v, want %v", s, err, notEnded)
		}
		j = jobIn(s, 0)
		if err := j.Reschedule(job.When{}, now); !errors.Is(err, inFlight) {
			t.Errorf("Reschedule of a %v job: %v, want %v", s, err, inFlight)
		}
		if err := j.Respecify(j.Spec); !errors.Is(err, inFlight) {
			t.Errorf("Respecify of a %v job: %v, want %v", s, err, inFlight)
		}
		if _, err := j.Cancel(now); !errors.Is(err, finished) {
			t.Errorf("Cancel of a %v job: %v, want %v", s, err, finished)
		}
	}
}

func TestCancel(t *testing.T) {
	j := jobIn(job.Retrying, 2)
	inFlight, err := j.Cancel(now)
	if err != nil || inFlight {
		t.Fatalf("Cancel = %v, %v", inFlight, err)
	}
	want := jobIn(job.Retrying, 2)
	want.State, want.Reason, want.NextAt, want.EndedAt = job.Cancelled, job.ReasonCancelled, 0, now
	if diff := gocmp.Diff(want, j); diff != "" {
		t.Error(diff)
	}

	j = jobIn(job.Running, 2)
	for range 2 { // asking twice is no error
		if inFlight, err = j.Cancel(now); err != nil || !inFlight {
			t.Fatalf("Cancel of a running job = %v, %v", inFlight, err)
		}
	}
	want = jobIn(job.Running, 2)
	want.CancelRequested = true
	if diff := gocmp.Diff(want, j); diff != "" {
		t.Error(diff)
	}
}

func TestReschedule(t *testing.T) {
	tests := []struct {
		name     string
		attempts int
		when     job.When
		due      job.Instant
		next     job.Instant
	}{
		{"first attempt moves the due time", 0, job.When{Delay: time.Hour}, now.Add(time.Hour), now.Add(time.Hour)},
		{"a retry does not", 3, job.When{Delay: time.Hour}, now - 1000, now.Add(time.Hour)},
		{"at an instant", 0, job.When{At: now + 5}, now + 5, now + 5},
		{"the past is now", 0, job.When{At: 1}, now, now},
		{"nothing said is now", 0, job.When{}, now, now},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := jobIn(job.Ready, tt.attempts)
			must.OK(t, j.Reschedule(tt.when, now))
			if j.DueAt != tt.due || j.NextAt != tt.next || j.State != j.Pending() {
				t.Errorf("due %d, next %d, %v; want due %d, next %d", j.DueAt, j.NextAt, j.State, tt.due, tt.next)
			}
		})
	}
}

func TestRespecifyAndTTL(t *testing.T) {
	j := jobIn(job.Waiting, 0)
	spec := job.Spec{Destination: "http://other.example", TTL: time.Hour}
	respecify := func(want job.Instant) {
		t.Helper()
		must.OK(t, j.Respecify(spec))
		if diff := gocmp.Diff(spec, j.Spec); diff != "" || j.ExpiresAt != want {
			t.Errorf("expires at %d, want %d\n%s", j.ExpiresAt, want, diff)
		}
	}
	respecify(j.CreatedAt.Add(time.Hour)) // counts from the registration
	spec.TTL = 2 * time.Hour
	respecify(j.CreatedAt.Add(2 * time.Hour))

	// After a replay it counts from there, or a change of the URL would expire it.
	later := now.Add(48 * time.Hour)
	j.State = job.Dead
	must.OK(t, j.Replay(later))
	respecify(later.Add(2 * time.Hour))
	spec.TTL = 3 * time.Hour
	respecify(later.Add(3 * time.Hour))
	spec.TTL = 0
	respecify(0)
}

func TestReplay(t *testing.T) {
	j := jobIn(job.Dead, 10)
	j.Spec.TTL, j.ExpiresAt = time.Hour, 5
	j.Snoozes, j.ExpiredLeases, j.CancelRequested = 4, 3, true
	j.LastAttempt = &job.Attempt{Number: 10}
	want := j
	want.State, want.Reason, want.EndedAt = job.Waiting, "", 0
	want.Attempts, want.Snoozes, want.ExpiredLeases, want.CancelRequested = 0, 0, 0, false
	want.DueAt, want.NextAt, want.ExpiresAt = now, now, now.Add(time.Hour)
	must.OK(t, j.Replay(now))
	if diff := gocmp.Diff(want, j); diff != "" {
		t.Error(diff)
	}

	j = jobIn(job.Delivered, 1)
	if err := j.Replay(now); err != nil || j.ExpiresAt != 0 {
		t.Errorf("a job without a TTL expires at %d after its replay, %v", j.ExpiresAt, err)
	}
}

// justExpired is a job claimed from an expired lease, as the last of so many.
func justExpired(leases int) func(j *job.Job) {
	return func(j *job.Job) { j.State, j.ExpiredLeases = job.Running, leases }
}

func quarantined(d time.Duration) *job.Outcome {
	return &job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonQuarantined, After: d}
}

func TestBefore(t *testing.T) {
	tests := []struct {
		name   string
		change func(j *job.Job)
		want   *job.Outcome
	}{
		{"go ahead", func(*job.Job) {}, nil},
		{"cancelled", func(j *job.Job) { j.CancelRequested = true }, &job.Outcome{Kind: job.OutcomeCancelled}},
		{"a callback of a known event", func(j *job.Job) { j.Spec.Reports = job.CallbackAttemptFailed }, nil},
		{"too few expired leases", func(j *job.Job) { j.ExpiredLeases = job.SuspectAfter - 1 }, nil},
		{"too few expired leases, the last one just now", justExpired(job.SuspectAfter - 1), nil},
		{"a suspect's turn", func(j *job.Job) { j.ExpiredLeases = job.SuspectAfter }, nil},
		{"a suspect's last turn", func(j *job.Job) { j.ExpiredLeases = job.MaxExpiredLeases - 1 }, nil},
		{"the lease of a suspect just expired", justExpired(job.SuspectAfter), quarantined(time.Minute)},
		{"the lease of a suspect expired again", justExpired(job.SuspectAfter + 1), quarantined(5 * time.Minute)},
		{"the lease of a suspect expired for the last time but one", justExpired(job.MaxExpiredLeases - 1), quarantined(4 * time.Hour)},
		{"too many expired leases", justExpired(job.MaxExpiredLeases), &job.Outcome{Kind: job.OutcomeLeaseExpired}},
		{"too many expired leases, and was put back", func(j *job.Job) { j.ExpiredLeases = job.MaxExpiredLeases }, &job.Outcome{Kind: job.OutcomeLeaseExpired}},
		{"not expired yet", func(j *job.Job) { j.ExpiresAt = now + 1 }, nil},
		{"expired now", func(j *job.Job) { j.ExpiresAt = now }, &job.Outcome{Kind: job.OutcomeExpired}},
		{"cancelled comes first", func(j *job.Job) {
			j.State, j.CancelRequested, j.ExpiredLeases, j.ExpiresAt = job.Running, true, 99, 1
		}, &job.Outcome{Kind: job.OutcomeCancelled}},
		{"expired comes before a quarantine", func(j *job.Job) {
			j.State, j.ExpiredLeases, j.ExpiresAt = job.Running, job.SuspectAfter, now
		}, &job.Outcome{Kind: job.OutcomeExpired}},
		{"a consumer's lease and the TTL ended", func(j *job.Job) {
			j.State, j.ExpiresAt, j.Spec.Destination = job.Running, now, job.PullQueue
		}, &job.Outcome{Kind: job.OutcomeExpired, Attempt: &job.Attempt{
			Number: 2, StartedAt: now - 5000, Duration: 5 * time.Second, Error: job.ReasonLeaseExpired, Version: 3,
		}}},
		{"an expired lease comes before the TTL", func(j *job.Job) {
			j.ExpiredLeases, j.ExpiresAt = 99, 1
		}, &job.Outcome{Kind: job.OutcomeLeaseExpired}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := jobIn(job.Ready, 1)
			tt.change(&j)
			from := j.State
			if from != job.Running {
				from = job.Ready
			}
			j.State = job.Running
			if diff := gocmp.Diff(tt.want, j.Before(from, now-5000, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMoveDue(t *testing.T) {
	const now = 1000
	for _, tt := range []struct {
		state    job.State
		attempts int
		next     job.Instant
		later    bool
		due      job.Instant
		moved    bool
		want     job.State
	}{
		{job.Waiting, 0, 2000, true, 3000, true, job.Waiting},
		{job.Waiting, 0, 2000, true, 2000, false, job.Waiting},
		{job.Waiting, 0, 2000, true, 1500, false, job.Waiting},
		{job.Waiting, 0, 2000, false, 1500, true, job.Waiting},
		{job.Waiting, 0, 2000, false, 2000, false, job.Waiting},
		{job.Waiting, 0, 2000, false, 3000, false, job.Waiting},
		{job.Retrying, 1, 2000, true, 3000, true, job.Retrying},
		{job.Retrying, 1, 2000, false, 1500, true, job.Retrying},
		{job.Ready, 0, 900, true, 2000, true, job.Waiting},
		{job.Ready, 0, 900, true, now, false, job.Ready}, // it is as late as now already
		{job.Ready, 1, 900, true, 2000, true, job.Retrying},
		{job.Ready, 0, 900, false, 2000, false, job.Ready},
		{job.Ready, 0, 900, false, now, false, job.Ready},
	} {
		j := job.Job{State: tt.state, Attempts: tt.attempts, DueAt: 900, NextAt: tt.next}
		want := j
		want.State = tt.want
		if tt.moved {
			want.NextAt = tt.due
			if tt.attempts == 0 {
				want.DueAt = tt.due
			}
		}
		moved, err := j.MoveDue(job.When{At: tt.due}, tt.later, now)
		if err != nil || moved != tt.moved || !gocmp.Equal(j, want) {
			t.Errorf("%+v: %v, %v, %+v", tt, moved, err, j)
		}
	}
	for state, want := range map[job.State]error{
		job.Running: job.ErrInFlight, job.Delivered: job.ErrFinished, job.Dead: job.ErrFinished,
		job.Cancelled: job.ErrFinished, job.Expired: job.ErrFinished,
	} {
		j := job.Job{State: state}
		if moved, err := j.MoveDue(job.When{At: 2000}, true, now); moved || !errors.Is(err, want) {
			t.Errorf("%v: %v, %v", state, moved, err)
		}
	}
}

// A replay with a change starts anew with what it asks for.
func TestReplayAs(t *testing.T) {
	j := jobIn(job.Dead, 4)
	j.Spec.TTL, j.ExpiresAt = time.Hour, now-100
	spec := job.Spec{Destination: "http://other", TTL: 2 * time.Hour}
	must.OK(t, j.ReplayAs(spec, &job.When{Delay: time.Minute}, now))
	want := jobIn(job.Waiting, 0)
	want.Spec, want.DueAt, want.NextAt, want.ExpiresAt = spec, now.Add(time.Minute), now.Add(time.Minute), now.Add(2*time.Hour)
	if diff := gocmp.Diff(want, j); diff != "" {
		t.Error(diff)
	}
	j = jobIn(job.Expired, 0)
	j.Spec.TTL, j.ExpiresAt = time.Hour, now-100
	spec.TTL = 0
	if err := j.ReplayAs(spec, nil, now); err != nil || j.ExpiresAt != 0 || j.NextAt != now {
		t.Errorf("without a TTL: %v, expires at %d, next at %d", err, j.ExpiresAt, j.NextAt)
	}
}

// What a discarded dead letter went through stays.
func TestDiscard(t *testing.T) {
	j := jobIn(job.Dead, 4)
	want := j
	want.State, want.Reason, want.EndedAt = job.Cancelled, job.ReasonDiscarded, now
	must.OK(t, j.Discard(now))
	if diff := gocmp.Diff(want, j); diff != "" {
		t.Error(diff)
	}
	for _, s := range job.States {
		j := jobIn(s, 0)
		if err := j.Discard(now); s != job.Dead && !errors.Is(err, job.ErrNotDead) {
			t.Errorf("%v: %v", s, err)
		}
	}
}
