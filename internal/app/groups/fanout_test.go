package groups_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// members have the names given, and the label after a slash, if there is one.
func members(names ...string) (list []groups.Member) {
	for _, n := range names {
		name, label, _ := strings.Cut(n, "/")
		list = append(list, groups.Member{Name: name, URL: job.Destination("https://" + name + ".example/"), FilterLabel: label})
	}
	return list
}

// fanOut is a registration of id o for group g, as change makes it.
func fanOut(of []groups.Member, change ...func(f *groups.FanOut)) *groups.FanOut {
	f := &groups.FanOut{
		ID: "o", Members: of, Fill: func(*job.Spec) {},
		Spec: job.Spec{Headers: []job.Header{{Name: "X", Value: "own"}}, Group: &job.Membership{Group: "g", Headers: 1}},
	}
	for _, c := range change {
		c(f)
	}
	h := fnv.New64()
	_, _ = fmt.Fprint(h, f.Spec.When, f.Spec.Headers, *f.Spec.Group)
	f.Spec.Content = job.Fingerprint(h.Sum64())
	return f
}

func delayed(f *groups.FanOut) { f.Spec.When.Delay = time.Hour }

func with(p job.OnConflict) func(f *groups.FanOut) {
	return func(f *groups.FanOut) { f.Policy = p }
}

// jobsOf are the jobs that a plan registers.
func jobsOf(p groups.Plan) (jobs []job.Job) {
	for i, t := range p.Targets {
		j := store.Registration{Key: job.Key{Topic: "t", ID: t.ID}, UID: fmt.Sprint(i), Spec: t.Spec}.Job(1)
		jobs = append(jobs, j)
	}
	return jobs
}

func in(state job.State, jobs []job.Job) []job.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].State = state
	}
	return jobs
}

// describe is a plan in a line: targets with their hosts, or the refused jobs.
func describe(p groups.Plan) string {
	var parts []string
	for _, r := range p.Refused {
		parts = append(parts, "refused "+r.Job.ID)
	}
	for _, t := range p.Targets {
		parts = append(parts, t.ID+"@"+strings.TrimSuffix(strings.TrimPrefix(string(t.Spec.Destination), "https://"), ".example/"))
	}
	if p.Repeats {
		parts = append(parts, "repeats")
	}
	return strings.Join(parts, " ")
}

func TestPlan(t *testing.T) {
	first := jobsOf(fanOut(members("b", "a", "c")).Plan())
	moved := members("d", "a")
	moved[1].URL = "https://new.example/"
	slices.Reverse(first) // stores have an order of their own
	for _, c := range []struct {
		name string
		f    *groups.FanOut
		kept []job.Job
		want string
	}{
		{"the first time", fanOut(members("b", "a")), nil, "o:b@b o:a@a"},
		{"an empty group", fanOut(nil), nil, ""},
		{"with a filter", fanOut(members("a", "b/eu", "c/us", "d/eu"), func(f *groups.FanOut) { f.Spec.Group.FilterLabel = "eu" }), nil, "o:b@b o:d@d"},
		{"a repetition", fanOut(members("b", "a", "c")), first, "o:b@b o:a@a o:c@c repeats"},
		{"a repetition for another group now", fanOut(moved), first, "o:b@b o:a@a o:c@c repeats"},
		{"a repetition without a group", fanOut(nil), first, "o:b@b o:a@a o:c@c repeats"},
		{"a repetition after the end", fanOut(moved), in(job.Delivered, first), "o:b@b o:a@a o:c@c repeats"},
		{"a repetition of dead letters", fanOut(moved), in(job.Dead, first), "o:b@b o:a@a o:c@c repeats"},
		{"half a fan-out", fanOut(members("b", "a", "c")), first[:1], "o:b@b o:a@a o:c@c"},
		{"half a fan-out for another group now", fanOut(moved), first[1:2], "o:d@d o:a@a"},
		{"half a fan-out, whose member has left", fanOut(moved), first[:1], "o:d@d o:a@new o:c@c"},
		{"after a cancel", fanOut(moved), in(job.Cancelled, first), "o:d@d o:a@new"},
		{"after the cancel of one", fanOut(moved), slices.Concat(in(job.Cancelled, first[:1]), first[1:]), "o:b@b o:a@a o:c@c repeats"},
		{"other content", fanOut(members("b", "a", "d"), delayed), first, "refused o:b refused o:a"},
		{"other content after the end", fanOut(moved, delayed), in(job.Delivered, first), "o:d@d o:a@new"},
		{"other content over dead letters", fanOut(moved, delayed), in(job.Dead, first), "refused o:a"},
		{"another group", fanOut(members("b"), func(f *groups.FanOut) { f.Spec.Group.Group = "h" }), first, "refused o:b"},
		{"fewer headers", fanOut(members("b"), func(f *groups.FanOut) { f.Spec.Headers, f.Spec.Group.Headers = nil, 0 }), first, "refused o:b"},
		{"another filter", fanOut(members("b/eu"), func(f *groups.FanOut) { f.Spec.Group.FilterLabel = "eu" }), first, "refused o:b"},
		{"another key", fanOut(members("b"), delayed, with(job.ConflictKey)), first[:2], "refused o:a refused o:c"},
		{"the same key after a cancel", fanOut(moved, with(job.ConflictKey)), in(job.Cancelled, first), "o:b@b o:a@a o:c@c repeats"},
		{"ignore", fanOut(moved, delayed, with(job.ConflictIgnore)), first, "o:b@b o:a@a o:c@c repeats"},
		{"later", fanOut(moved, delayed, with(job.ConflictLater)), first, "o:b@b o:a@a o:c@c repeats"},
		{"later after the end", fanOut(moved, delayed, with(job.ConflictLater)), in(job.Delivered, first), "o:d@d o:a@new"},
		{"sooner in flight", fanOut(moved, with(job.ConflictSooner)), in(job.Running, first), "refused o:a"},
		{"replace", fanOut(moved, delayed, with(job.ConflictReplace)), first, "o:d@d o:a@new"},
		{"a job of the id that is no member's", fanOut(members("a")), []job.Job{{Key: job.Key{Topic: "t", ID: "o:a"}}}, "o:a@a"},
	} {
		c.f.Kept = c.kept
		if got := describe(c.f.Plan()); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The second repetition of a fan-out that was completed has the same jobs as the first.
func TestCompletedFanOutIsFixed(t *testing.T) {
	half := jobsOf(fanOut(members("a", "b", "c")).Plan())[:1]
	f := fanOut(members("d", "b"))
	f.Kept = half
	completed := f.Plan()
	f = fanOut(members("e"))
	f.Kept = append(half, jobsOf(completed)[:2]...)
	if got := describe(f.Plan()); !strings.HasSuffix(got, "repeats") || len(f.Plan().Targets) != 3 {
		t.Errorf("completed as %s, repeated as %s", describe(completed), got)
	}
}

func TestHeadersAndDefaults(t *testing.T) {
	f := fanOut([]groups.Member{{Name: "a", URL: "https://a.example/", Headers: []job.Header{{Name: "A", Value: "member"}, {Name: "X", Value: "member"}}}})
	defaults := job.Defaults{Timeout: time.Second, Headers: []job.Header{{Name: "A", Value: "topic"}, {Name: "Z", Value: "topic"}}}
	f.Fill = func(s *job.Spec) { *s = defaults.Apply(&job.Draft{}, *s) }
	p := f.Plan()
	want := job.Spec{
		Destination: "https://a.example/", Timeout: time.Second,
		Headers: []job.Header{{Name: "A", Value: "member"}, {Name: "X", Value: "own"}, {Name: "Z", Value: "topic"}},
		Group:   &job.Membership{Group: "g", Size: 1, Headers: 1},
		Content: f.Spec.Content,
	}
	if diff := cmp.Diff(want, p.Targets[0].Spec); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f.Kept = jobsOf(p)
	f.Members[0].Headers = nil
	if again := f.Plan(); !again.Repeats {
		t.Errorf("with defaults: %s", describe(again))
	} else if diff := cmp.Diff(want, again.Targets[0].Spec); diff != "" {
		t.Errorf("repeated (-want +got)\n%s", diff)
	}
}
