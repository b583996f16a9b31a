package app

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/redisstore"
)

// racing registers a job just before each call that registers several.
type racing struct {
	Store
	first *store.Registration // or nil
}

func (r *racing) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	if len(regs) > 1 && r.first != nil {
		if _, err := r.Store.Register(ctx, []store.Registration{*r.first}); err != nil {
			return nil, err
		}
	}
	return r.Store.Register(ctx, regs)
}

func onRedis(t *testing.T) func(o *Options) {
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: testenv.StartRedis(t).URL(), Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(o *Options) { o.Store = s }
}

// If the key of one member is taken, nothing of a fan-out remains to be sent: neither if
// the other job was there before, nor if it arrives while the fan-out registers.
func TestFanOutOverATakenKey(t *testing.T) {
	for name, on := range map[string]func(*testing.T) func(*Options){
		"memory": func(*testing.T) func(*Options) { return func(*Options) {} },
		"Redis":  onRedis,
	} {
		t.Run(name, func(t *testing.T) {
			var racer racing
			var manager *groups.Manager
			r := newRig(t, on(t), func(o *Options) {
				manager = groups.New(o.Store.(store.Documents), o.Guard.Check, o.Clock)
				racer.Store = o.Store
				o.Groups, o.Store = manager, &racer
			})
			g := groups.Group{Name: "g"}
			for i := range 9 {
				g.Members = append(g.Members, groups.Member{Name: fmt.Sprint("m", i), URL: "https://m.example/"})
			}
			if _, _, err := manager.Put(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			plain := func(id string) store.Registration {
				p, err := r.Prepare(draft(named("t", id)), Origin{})
				if err != nil {
					t.Fatal(err)
				}
				return p.reg
			}
			fanOut := func(id string) *FanOut {
				f, err := r.PrepareGroup(t.Context(), &job.Draft{Topic: ptr("t"), ID: &id, Group: ptr("g")}, Origin{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range f.Jobs {
					f.Jobs[i].reg.Spec.Callbacks = &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackCancelled: {Destination: "https://c.example/"}}}
				}
				return f
			}
			unfinished := func() (all []string) {
				page, err := r.List(t.Context(), store.Query{Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range page.Jobs {
					if j.State != job.Cancelled {
						all = append(all, j.ID)
					}
				}
				slices.Sort(all)
				return all
			}

			if _, err := r.o.Store.Register(t.Context(), []store.Registration{plain("a:m1")}); err != nil {
				t.Fatal(err)
			}
			f := fanOut("a")
			if len(f.Jobs) != 0 || len(f.Refused) != 1 || f.Refused[0].Outcome != store.Exists || f.Refused[0].Job.ID != "a:m1" {
				t.Errorf("%d jobs to register, refused: %v", len(f.Jobs), f.Refused)
			}

			first := plain("b:m7")
			f, racer.first = fanOut("b"), &first
			registered, err := r.RegisterGroup(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for i := range registered {
				if one := &registered[i]; Withdrawn(one) != (i != 7) || i == 7 && one.Outcome != store.Exists {
					t.Errorf("%s: outcome %d, %s", f.Jobs[i].Key(), one.Outcome, one.Job.State)
				}
			}
			if got := unfinished(); !slices.Equal(got, []string{"a:m1", "b:m7"}) {
				t.Errorf("not cancelled: %v", got)
			}

			racer.first = nil
			if _, _, err := r.Cancel(t.Context(), first.Key); err != nil {
				t.Fatal(err)
			}
			if registered, err := r.RegisterGroup(t.Context(), fanOut("b")); err != nil || len(registered) != 9 ||
				slices.ContainsFunc(registered, func(r store.Registered) bool { return r.Outcome != store.Created }) {
				t.Errorf("repeated as %v, %v", registered, err)
			}
		})
	}
}
