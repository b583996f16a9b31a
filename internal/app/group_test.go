package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// halving registers the first jobs of its first call only, as a crash between two shards
// would, and reports an error.
type halving struct {
	Store
	first int
}

var errCrash = errors.New("a crash")

func (h *halving) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	if n := h.first; n > 0 {
		h.first = 0
		if _, err := h.Store.Register(ctx, regs[:n]); err != nil {
			return nil, err
		}
		return nil, errCrash
	}
	return h.Store.Register(ctx, regs)
}

// A repetition completes a fan-out that broke off, and later ones have the same jobs.
func TestFanOutThatBrokeOff(t *testing.T) {
	var kept *groups.Manager
	r := newRig(t, func(o *Options) {
		kept = groups.New(o.Store.(store.Documents), o.Guard.Check, o.Clock)
		o.Groups, o.Store = kept, &halving{Store: o.Store, first: 2}
	})
	put := func(names ...string) {
		t.Helper()
		g := groups.Group{Name: "g"}
		for _, name := range names {
			g.Members = append(g.Members, groups.Member{Name: name, URL: job.Destination("https://" + name + ".example/")})
		}
		if _, _, err := kept.Put(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	register := func(want error) (jobs []string) {
		t.Helper()
		f, err := r.PrepareGroup(t.Context(), &job.Draft{ID: ptr("o"), Group: ptr("g")}, Origin{})
		if err != nil {
			t.Fatal(err)
		}
		registered, err := r.RegisterGroup(t.Context(), f)
		if !errors.Is(err, want) {
			t.Fatalf("error %v", err)
		}
		for _, one := range registered {
			jobs = append(jobs, one.Job.ID+" "+one.Job.UID)
		}
		return jobs
	}
	put("a", "b", "c")
	register(errCrash)
	put("c", "d", "a") // b has left, and has a job
	completed := register(nil)
	var ids []string
	for _, j := range completed {
		ids = append(ids, j[:3])
	}
	if !slices.Equal(ids, []string{"o:c", "o:d", "o:a", "o:b"}) {
		t.Errorf("completed as %v", ids)
	}
	put("e")
	again := register(nil)
	slices.Sort(again)
	slices.Sort(completed)
	if !slices.Equal(again, completed) {
		t.Errorf("repeated as %v, after %v", again, completed)
	}
	const want = `
# HELP duehook_fan_out_jobs Jobs of registrations for groups, with those that a repetition found registered.
# TYPE duehook_fan_out_jobs histogram
duehook_fan_out_jobs_bucket{le="0"} 0
duehook_fan_out_jobs_bucket{le="1"} 0
duehook_fan_out_jobs_bucket{le="10"} 2
duehook_fan_out_jobs_bucket{le="100"} 2
duehook_fan_out_jobs_bucket{le="1000"} 2
duehook_fan_out_jobs_bucket{le="+Inf"} 2
duehook_fan_out_jobs_sum 8
duehook_fan_out_jobs_count 2
`
	if err := testutil.CollectAndCompare(r.metrics.fanOuts, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
