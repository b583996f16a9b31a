package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// policies in the order of the columns below.
var policies = []job.OnConflict{job.ConflictReject, job.ConflictIgnore, job.ConflictReplace, job.ConflictLater, job.ConflictSooner, job.ConflictRenew, job.ConflictOnce, job.ConflictKey}

func TestAgainst(t *testing.T) {
	const (
		created, same, kept, moves = store.Created, store.Same, store.Kept, store.Moves
		exists, inFlight, dead     = store.Exists, store.InFlight, store.DeadLetter
		reused                     = store.KeyReused
	)
	type row = []store.RegisterOutcome
	for state, rows := range map[job.State]struct{ equal, other row }{
		job.Waiting:   {row{same, same, same, moves, moves, same, kept, same}, row{exists, kept, created, moves, moves, exists, kept, reused}},
		job.Retrying:  {row{same, same, same, moves, moves, same, kept, same}, row{exists, kept, created, moves, moves, exists, kept, reused}},
		job.Ready:     {row{same, same, same, moves, moves, same, kept, same}, row{exists, kept, created, moves, moves, exists, kept, reused}},
		job.Running:   {row{same, same, same, inFlight, inFlight, same, kept, same}, row{exists, kept, inFlight, inFlight, inFlight, exists, kept, reused}},
		job.Delivered: {row{same, same, created, created, created, created, kept, same}, row{created, created, created, created, created, created, kept, reused}},
		job.Expired:   {row{same, same, created, created, created, created, kept, same}, row{created, created, created, created, created, created, kept, reused}},
		job.Cancelled: {row{created, created, created, created, created, created, kept, same}, row{created, created, created, created, created, created, kept, reused}},
		job.Dead:      {row{same, same, created, moves, moves, created, kept, same}, row{dead, dead, created, moves, moves, created, kept, reused}},
	} {
		old := job.Job{State: state, Spec: job.Spec{Destination: "http://a", Content: 1}}
		for content, want := range map[job.Fingerprint]row{1: rows.equal, 2: rows.other} {
			for i, p := range policies {
				spec := old.Spec
				spec.Content = content
				if got := rules.Against(&store.Registration{UID: "new", Spec: spec, OnConflict: p}, &old); got != want[i] {
					t.Errorf("%v, content %d, policy %v: %v, want %v", state, content, p, got, want[i])
				}
			}
		}
	}
}

// A job with another order key keeps its turn: it neither gives way nor moves to another key.
func TestAgainstAnotherOrderKey(t *testing.T) {
	for state, want := range map[job.State]map[job.OnConflict]store.RegisterOutcome{
		job.Waiting:   {job.ConflictReject: store.Exists, job.ConflictReplace: store.OtherOrderKey},
		job.Running:   {job.ConflictReject: store.Exists, job.ConflictReplace: store.InFlight},
		job.Dead:      {job.ConflictReject: store.OtherOrderKey, job.ConflictReplace: store.OtherOrderKey},
		job.Delivered: {job.ConflictReject: store.Created, job.ConflictReplace: store.Created},
	} {
		for policy, outcome := range want {
			for _, keys := range [][2]string{{"a", "b"}, {"", "b"}, {"a", ""}} {
				old := job.Job{State: state, Spec: job.Spec{OrderKey: keys[0]}}
				r := store.Registration{Spec: job.Spec{OrderKey: keys[1]}, OnConflict: policy}
				if got := rules.Against(&r, &old); got != outcome || got.Conflicts() != (outcome != store.Created) {
					t.Errorf("%v, policy %v, order keys %q: %v, want %v", state, policy, keys, got, outcome)
				}
			}
		}
	}
}

func TestKeysApart(t *testing.T) {
	var regs []store.Registration
	for _, id := range []string{"a", "b", "a", "c", "a", "b"} {
		regs = append(regs, store.Registration{Key: job.Key{Topic: "t", ID: id}})
	}
	if diff := cmp.Diff([][]int{{0, 1, 3}, {2, 5}, {4}}, rules.KeysApart(regs)); diff != "" {
		t.Error(diff)
	}
}

func TestAdmits(t *testing.T) {
	for name, of := range map[string]struct {
		limits     store.Limits
		unfinished int64
		want       store.RegisterOutcome
	}{
		"no limits":                {store.Limits{}, 1 << 40, store.Created},
		"a place is left":          {store.Limits{Capacity: 2}, 1, store.Created},
		"at its capacity":          {store.Limits{Capacity: 2}, 2, store.TopicFull},
		"above a lowered capacity": {store.Limits{Capacity: 2}, 3, store.TopicFull},
		"draining":                 {store.Limits{Draining: true}, 0, store.TopicDraining},
		"draining and full":        {store.Limits{Draining: true, Capacity: 2}, 2, store.TopicDraining},
		"paused":                   {store.Limits{Paused: true}, 5, store.Created},
	} {
		if got := rules.Admits(&of.limits, of.unfinished); got != of.want {
			t.Errorf("%s: %v, want %v", name, got, of.want)
		}
	}
}
