package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// rig is an App on a store in memory, with topics and a guard that blocks link-local
// addresses.
type rig struct {
	*App
	t      testing.TB
	clock  *testenv.Clock
	mem    diskstore.Embedded
	topics *topics.Manager
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	clock := testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
	r := &rig{t: t, clock: clock, mem: testenv.Store(t, diskstore.Options{Clock: clock, Retention: time.Hour})}
	var err error
	if r.topics, err = topics.New(topics.Options{Store: r.mem, Clock: clock}); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Store: r.mem, Clock: clock, Topics: r.topics, Policy: retrypolicy.Default(), Bounds: job.Bounds{MaxBody: 100},
		Guard: func(rawURL string) error {
			if strings.Contains(rawURL, "169.254.") {
				return errors.New("link-local")
			}
			return nil
		},
	}
	for _, c := range change {
		c(&o)
	}
	if r.App, err = New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// draft is one of a job for a shop.
func draft(change ...func(*job.Draft)) *job.Draft {
	d := &job.Draft{Destination: ptr[job.Destination]("https://shop.example/hook")}
	for _, c := range change {
		c(d)
	}
	return d
}

func named(topic, id string) func(*job.Draft) {
	return func(d *job.Draft) { d.Topic, d.ID = &topic, &id }
}

func ptr[T any](v T) *T { return &v }

// register registers a job from a draft.
func (r *rig) register(d *job.Draft, from Origin) store.Registered {
	r.t.Helper()
	p, err := r.Prepare(d, from)
	if err != nil {
		r.t.Fatal(err)
	}
	registered, err := r.Register(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return registered[0]
}
