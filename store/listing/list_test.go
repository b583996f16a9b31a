package listing_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// fakeSource is a store that counts what is asked of it.
type fakeSource struct {
	store.Reader // for calls that listings do not make

	segments map[store.Index][]store.Entry // in order
	jobs     map[job.Key]*job.Job
	uids     []*job.Job

	mu                        sync.Mutex // for Names
	fetches, examined, loaded int
	fail                      map[string]error
}

func (*fakeSource) Shards() int { return 3 }

var kindOf = map[store.NameKind]store.IndexKind{
	store.LaneNames: store.IndexLane, store.DeadNames: store.IndexDead, store.EndedNames: store.IndexEnded,
}

func (s *fakeSource) Names(_ context.Context, q store.NameQuery) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for seg := range s.segments { // in random order
		of := q.Topic == "" || seg.Name == q.Topic || strings.HasPrefix(seg.Name, q.Topic+"|")
		if seg.Kind == kindOf[q.Kind] && seg.Shard == q.Shard && of && seg.Name >= q.From {
			names = append(names, seg.Name)
		}
	}
	slices.Sort(names)
	return names[:min(q.N, len(names))], s.fail["Names"]
}

func (s *fakeSource) Entries(_ context.Context, seg store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	if seg.Kind == store.IndexUID {
		return s.findUID(seg.Name, span.After)
	}
	entries, sign := slices.Clone(s.segments[seg]), 1
	if span.Back {
		slices.Reverse(entries)
		sign = -1
	}
	if span.After != nil {
		entries = slices.DeleteFunc(entries, func(e store.Entry) bool { return sign*e.Compare(*span.After) <= 0 })
	}
	entries = entries[:min(span.N, len(entries))]
	s.fetches++
	s.examined += len(entries)
	return entries, nil, s.fail["Entries"]
}

// findUID looks at one job a call.
func (s *fakeSource) findUID(uid string, after *store.Position) ([]store.Entry, *store.Position, error) {
	s.loaded++
	n := 0
	if after != nil {
		n = len(after.ID)
	}
	if n < len(s.uids) && s.uids[n].UID == uid {
		return []store.Entry{{Position: store.Position{ID: s.uids[n].Key.String()}}}, nil, s.fail["Entries"]
	}
	if n+1 >= len(s.uids) {
		return nil, nil, s.fail["Entries"]
	}
	return nil, &store.Position{ID: strings.Repeat("x", n+1)}, s.fail["Entries"]
}

func (s *fakeSource) Get(_ context.Context, key job.Key) (job.Job, error) {
	for _, j := range s.uids {
		if j.Key == key {
			return *j, s.fail["Get"]
		}
	}
	return job.Job{}, store.ErrNotFound
}

func (s *fakeSource) Read(_ context.Context, q store.ReadQuery) (r store.Records, err error) {
	s.loaded += len(q.Keys)
	for _, key := range q.Keys {
		r.Jobs = append(r.Jobs, s.jobs[key])
	}
	return r, s.fail["Read"]
}

// add puts a job into the segments where it belongs.
func (s *fakeSource) add(topic, id, endpoint string, shard int, state job.State, bizKey string, score float64) {
	if s.segments == nil {
		s.segments, s.jobs = map[store.Index][]store.Entry{}, map[job.Key]*job.Job{}
	}
	key := job.Key{Topic: topic, ID: id}
	s.jobs[key] = &job.Job{Key: key, State: state, Spec: job.Spec{BizKey: bizKey}, CreatedAt: 1}
	seg := store.Index{Kind: store.IndexEnded, Name: topic, Shard: shard}
	switch {
	case !state.Final():
		seg.Kind, seg.Name = store.IndexLane, topic+"|"+endpoint
	case state == job.Dead:
		seg.Kind, seg.Name = store.IndexDead, topic+"|"+endpoint+"|"
	}
	s.insert(seg, store.Entry{Position: store.Position{Score: score, ID: id}, State: state})
	if bizKey != "" {
		biz := store.Index{Kind: store.IndexNamed, Name: bizKey, Shard: shard}
		s.insert(biz, store.Entry{Position: store.Position{ID: key.String()}})
	}
}

func (s *fakeSource) insert(seg store.Index, e store.Entry) {
	entries := s.segments[seg]
	at, _ := slices.BinarySearchFunc(entries, e, func(a, b store.Entry) int {
		return a.Position.Compare(b.Position)
	})
	s.segments[seg] = slices.Insert(entries, at, e)
}

// all reads all pages.
func all(t rapid.TB, s *fakeSource, q store.Query) (jobs []string, pages int) {
	t.Helper()
	for {
		page, err := listing.List(t.(interface{ Context() context.Context }).Context(), s, q)
		must.OK(t, err)
		pages++
		if len(page.Jobs) > q.Limit {
			t.Fatalf("%d jobs on a page of %d", len(page.Jobs), q.Limit)
		}
		for _, j := range page.Jobs {
			jobs = append(jobs, j.Key.String())
		}
		if page.Next == "" {
			return jobs, pages
		}
		if strings.Trim(page.Next, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Fatalf("cursor %q is not fit for a URL", page.Next)
		}
		q.Cursor = page.Next
	}
}

func TestListGivesEachMatchingJobOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &fakeSource{}
		n := rapid.IntRange(0, 60).Draw(t, "jobs")
		for i := range n {
			s.add(
				rapid.SampledFrom([]string{"t", "t-u", "u"}).Draw(t, "topic"), fmt.Sprintf("job-%d", i),
				rapid.SampledFrom([]string{"http://a:80", "http://b:80"}).Draw(t, "endpoint"),
				rapid.IntRange(0, 1).Draw(t, "shard"),
				rapid.SampledFrom(job.States).Draw(t, "state"),
				rapid.SampledFrom([]string{"", "b", "c"}).Draw(t, "biz_key"),
				float64(rapid.IntRange(-2, 2).Draw(t, "score"))/4,
			)
		}
		q := store.Query{
			Topic:  rapid.SampledFrom([]string{"", "t", "none"}).Draw(t, "topic"),
			BizKey: rapid.SampledFrom([]string{"", "b"}).Draw(t, "biz_key"),
			Limit:  rapid.IntRange(1, 20).Draw(t, "limit"),
		}
		if rapid.Bool().Draw(t, "filter by state") {
			state := rapid.SampledFrom(job.States).Draw(t, "state")
			q.States = []job.State{state}
		}
		var want []string
		for key, j := range s.jobs {
			if (q.Topic == "" || key.Topic == q.Topic) && (len(q.States) == 0 || j.State == q.States[0]) &&
				(q.BizKey == "" || j.Spec.BizKey == q.BizKey) {
				want = append(want, key.String())
			}
		}
		got, pages := all(t, s, q)
		if most := max(1, (len(want)+q.Limit-1)/q.Limit); pages != most {
			t.Errorf("%d pages of %d for %d jobs, want %d", pages, q.Limit, len(want), most)
		}
		whole, _ := all(t, s, store.Query{Topic: q.Topic, States: q.States, BizKey: q.BizKey, Limit: 1_000})
		must.Same(t, "the order depends on the page size (-one page +pages)", got, whole)
		slices.Sort(got)
		slices.Sort(want)
		must.Same(t, "jobs", got, want)
	})
}

func TestListOrder(t *testing.T) {
	s := &fakeSource{}
	s.add("u", "1", "http://a:80", 0, job.Waiting, "", 1)
	s.add("t", "ended", "", 0, job.Delivered, "", 1)
	s.add("t", "dead", "", 1, job.Dead, "", 9)
	s.add("t", "4", "http://b:80", 0, job.Retrying, "", 1)
	s.add("t", "3", "http://a:80", 1, job.Running, "", -5)
	s.add("t", "2", "http://a:80", 0, job.Waiting, "", 2)
	s.add("t", "1", "http://a:80", 0, job.Waiting, "", 2)
	s.add("t", "0", "http://a:80", 0, job.Waiting, "", 3)
	got, _ := all(t, s, store.Query{Limit: 3})
	want := []string{"t/1", "t/2", "t/0", "t/3", "t/4", "u/1", "t/dead", "t/ended"}
	must.Same(t, "order", got, want)
}

// mostExamined is what one page may cost at the most.
const mostExamined = 31_000

func TestListBoundsTheWorkOfAPage(t *testing.T) {
	t.Run("entries that do not match", func(t *testing.T) {
		s := &fakeSource{}
		for i := range 40_000 {
			s.add("t", fmt.Sprintf("%06d", i), "http://a:80", 0, job.Waiting, "", float64(i))
		}
		s.add("u", "last", "http://a:80", 0, job.Running, "", 0)
		state := job.Running
		q := store.Query{States: []job.State{state}, Limit: 10}
		var found []int
		for len(found) == 0 || q.Cursor != "" {
			s.examined = 0
			page, err := listing.List(t.Context(), s, q)
			must.OK(t, err)
			if s.examined > mostExamined {
				t.Fatalf("a page examined %d entries", s.examined)
			}
			found, q.Cursor = append(found, len(page.Jobs)), page.Next
		}
		if !slices.Equal(found, []int{0, 1, 0}) { // the budget ends behind the job
			t.Errorf("pages with %d jobs", found)
		}
		if s.loaded != 1 {
			t.Errorf("%d jobs were loaded, the states of the others were known", s.loaded)
		}
	})
	t.Run("small segments", func(t *testing.T) {
		s := &fakeSource{}
		for i := range 12_500 {
			s.add("t", fmt.Sprintf("%06d", i), fmt.Sprintf("http://e%d:80", i), 0, job.Waiting, "", 0)
		}
		state := job.Running
		_, pages := all(t, s, store.Query{States: []job.State{state}, Limit: 10})
		if pages < 3 {
			t.Errorf("%d pages over 12,500 segments", pages)
		}
	})
	t.Run("no more than the page needs", func(t *testing.T) {
		s := &fakeSource{}
		for i := range 5_000 {
			s.add("t", fmt.Sprintf("%06d", i), "http://a:80", 0, job.Waiting, "", 0)
		}
		if _, err := listing.List(t.Context(), s, store.Query{Limit: 10}); err != nil {
			t.Fatal(err)
		}
		if s.examined > 11 || s.loaded > 11 {
			t.Errorf("examined %d and loaded %d for a page of 10", s.examined, s.loaded)
		}
	})
	t.Run("any limit", func(t *testing.T) {
		s := &fakeSource{}
		for i := range 1_500 {
			s.add("t", fmt.Sprintf("%06d", i), "http://a:80", 0, job.Waiting, "", 0)
		}
		for limit, want := range map[int]int{-1: 1, 0: 1, 1: 1, 1_000: 1_000, 1_000_000: 1_000} {
			page, err := listing.List(t.Context(), s, store.Query{Limit: limit})
			if err != nil || len(page.Jobs) != want {
				t.Errorf("limit %d: %d jobs, %v, want %d", limit, len(page.Jobs), err, want)
			}
		}
	})
}

func TestListWhileTheStoreChanges(t *testing.T) {
	s := &fakeSource{}
	for i := range 6 {
		s.add(fmt.Sprintf("t%d", i), "a", "http://a:80", 0, job.Waiting, "b", 0)
	}
	first, err := listing.List(t.Context(), s, store.Query{Limit: 2})
	must.OK(t, err)
	delete(s.segments, store.Index{Kind: store.IndexLane, Name: "t1|M|http://a:80"}) // where the cursor points
	delete(s.jobs, job.Key{Topic: "t3", ID: "a"})                                    // gone since its entry was read
	s.jobs[job.Key{Topic: "t4", ID: "a"}].State = job.Running                        // changed since then
	got, _ := all(t, s, store.Query{Limit: 2, Cursor: first.Next})
	must.Same(t, "the rest", got, []string{"t2/a", "t4/a", "t5/a"})
	state := job.Waiting
	got, _ = all(t, s, store.Query{Limit: 9, States: []job.State{state}})
	if slices.Contains(got, "t4/a") {
		t.Error("a running job is listed as waiting")
	}
}

func TestListPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	for _, call := range []string{"Names", "Entries", "Read"} {
		s := &fakeSource{fail: map[string]error{call: broken}}
		s.add("t", "a", "http://a:80", 0, job.Waiting, "b", 0)
		for _, q := range []store.Query{{Limit: 1}, {Limit: 1, BizKey: "b"}} {
			if call == "Names" && q.BizKey != "" {
				continue // its name is known
			}
			if _, err := listing.List(t.Context(), s, q); !errors.Is(err, broken) {
				t.Errorf("%s fails: %v", call, err)
			}
		}
	}
}

func TestListRefusesCursors(t *testing.T) {
	s := &fakeSource{}
	s.add("t", "a", "http://a:80", 0, job.Waiting, "b", 0)
	for _, c := range []struct {
		text string
		q    store.Query
	}{
		{``, store.Query{}},
		{`{}`, store.Query{}},
		{`null`, store.Query{}},
		{`{"g":{"k":0,"n":""}}`, store.Query{}},
		{`{"g":{"k":9,"n":"t"}}`, store.Query{}},
		{`{"g":{"k":-1,"n":"t"}}`, store.Query{}},
		{`{"g":{"k":3,"n":"b"}}`, store.Query{}},
		{`{"g":{"k":0,"n":"t|M|http://a:80"}}`, store.Query{BizKey: "b"}},
		{`{"g":{"k":3,"n":"b"}}`, store.Query{BizKey: "b"}},
		{`{"g":{"k":0,"n":"t|M|http://a:80"}}`, store.Query{Topic: "t"}},
		{`{"g":{"k":0,"n":"t|M|http://a:80"},"f":"x"}`, store.Query{}},
		{`{"g":{"k":0,"n":"t|M|http://a:80"},"a":{"t":1e999}}`, store.Query{}},
		{`{"g":{"k":0,"n":7}}`, store.Query{}},
		{`{"g":{"k":0,"n":"t|M|http://a:80"}} {}`, store.Query{}},
	} {
		c.q.Limit, c.q.Cursor = 5, base64.RawURLEncoding.EncodeToString([]byte(c.text))+"!"
		if _, err := listing.List(t.Context(), s, c.q); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("%s!: %v, want ErrBadCursor", c.text, err)
		}
		if c.q.Cursor = strings.TrimSuffix(c.q.Cursor, "!"); c.q.Cursor == "" {
			continue
		}
		if _, err := listing.List(t.Context(), s, c.q); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("%s: %v, want ErrBadCursor", c.text, err)
		}
	}
}

func FuzzListCursor(f *testing.F) {
	s := &fakeSource{}
	for i := range 20 {
		s.add("t", fmt.Sprintf("%d", i), "http://a:80", i%2, job.States[i%8], "b", float64(i))
	}
	for _, q := range []store.Query{{Limit: 3}, {Limit: 3, BizKey: "b"}} {
		page, err := listing.List(f.Context(), s, q)
		must.OK(f, err)
		f.Add(page.Next, q.BizKey)
	}
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"g":{"k":2,"n":"t","s":-7},"a":{"t":-1,"i":"\u0000"}}`)), "")
	f.Fuzz(func(t *testing.T, cursor, bizKey string) {
		page, err := listing.List(t.Context(), s, store.Query{Limit: 3, BizKey: bizKey, Cursor: cursor})
		if err != nil && !errors.Is(err, store.ErrBadCursor) {
			t.Fatalf("List: %v", err)
		}
		if len(page.Jobs) > 3 {
			t.Fatalf("%d jobs", len(page.Jobs))
		}
	})
}

// A cursor belongs to a filter, however that is written down.
func TestListKnowsItsFilterAgain(t *testing.T) {
	s := &fakeSource{}
	for i := range 9 {
		s.add("t", fmt.Sprintf("%d", i), "http://a:80", 0, job.Dead, "", float64(i))
	}
	for _, j := range s.jobs {
		j.Spec.Labels = []job.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}
	}
	q := store.Query{Limit: 2, States: []job.State{job.Waiting, job.Dead}, Labels: []job.Label{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}}}
	page, err := listing.List(t.Context(), s, q)
	if err != nil || len(page.Jobs) != 2 || page.Next == "" {
		t.Fatalf("%d jobs, next %q, %v", len(page.Jobs), page.Next, err)
	}
	again := store.Query{
		Limit: 9, Cursor: page.Next,
		States: []job.State{job.Dead, job.Waiting, job.Dead}, Labels: []job.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}},
	}
	if page, err = listing.List(t.Context(), s, again); err != nil || len(page.Jobs) != 7 {
		t.Errorf("%d jobs, %v, want the other 7", len(page.Jobs), err)
	}
	for name, change := range map[string]func(*store.Query){
		"topic":    func(q *store.Query) { q.Topic = "t" },
		"states":   func(q *store.Query) { q.States = []job.State{job.Dead} },
		"biz_key":  func(q *store.Query) { q.BizKey = "b" },
		"endpoint": func(q *store.Query) { q.Endpoint = "http://a:80" },
		"reason":   func(q *store.Query) { q.Reason = "r" },
		"labels":   func(q *store.Query) { q.Labels = q.Labels[:1] },
		"due from": func(q *store.Query) { q.DueFrom = 1 },
		"due to":   func(q *store.Query) { q.DueTo = 1 },
	} {
		other := again
		if change(&other); other.Cursor == "" {
			t.Fatal("no cursor")
		}
		if _, err := listing.List(t.Context(), s, other); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("another filter by %s: %v, want ErrBadCursor", name, err)
		}
	}
}

// Jobs that have to be read before they are passed over cost more than entries. A page
// without jobs goes on for longer than another.
func TestListBoundsTheJobsItReads(t *testing.T) {
	s := &fakeSource{}
	for i := range 25_000 {
		s.add("t", fmt.Sprintf("%06d", i), "http://a:80", 0, job.Waiting, "", float64(i))
	}
	label := []job.Label{{Key: "a", Value: "1"}}
	for _, id := range []string{"008000", "024999"} {
		s.jobs[job.Key{Topic: "t", ID: id}].Spec.Labels = label
	}
	var loaded, found []int
	for q := (store.Query{Limit: 10, Labels: label}); len(loaded) == 0 || q.Cursor != ""; {
		s.loaded = 0
		page, err := listing.List(t.Context(), s, q)
		must.OK(t, err)
		loaded, found = append(loaded, s.loaded/1_000), append(found, len(page.Jobs))
		q.Cursor = page.Next
	}
	if !slices.Equal(found, []int{0, 1, 0, 0, 1, 0}) || !slices.Equal(loaded, []int{6, 2, 6, 6, 4, 0}) {
		t.Errorf("pages with %d jobs read %d thousand", found, loaded)
	}
	s.jobs[job.Key{Topic: "t", ID: "008000"}].Spec.Labels = nil
	large := make([]byte, 250<<10)
	for _, j := range s.jobs {
		j.Spec.Body = large
	}
	s.loaded = 0
	page, err := listing.List(t.Context(), s, store.Query{Limit: 10, Labels: label})
	if err != nil || len(page.Jobs) != 0 || page.Next == "" || s.loaded > 300 {
		t.Errorf("a page of large jobs read %d of them (%v)", s.loaded, err)
	}
}

// A look-up by uid goes on from page to page until the job is found.
func TestLookUp(t *testing.T) {
	s := &fakeSource{}
	for i := range 5 {
		s.uids = append(s.uids, &job.Job{Key: job.Key{Topic: "t", ID: fmt.Sprint(i)}, UID: fmt.Sprint("u", i)})
	}
	for uid, want := range map[string]string{"u0": "t/0", "u3": "t/3", "u9": ""} {
		jobs, _ := all(t, s, store.Query{UID: uid, Limit: 10})
		must.Equal(t, fmt.Sprintf("by %s", uid), strings.Join(jobs, " "), want)
	}
	if jobs, pages := all(t, s, store.Query{UID: "u3", Topic: "u", Limit: 10}); len(jobs) != 0 || pages != 4 {
		t.Errorf("of another topic: %v after %d pages", jobs, pages)
	}
	page, err := listing.List(t.Context(), s, store.Query{UID: "u3"})
	if err != nil || page.Next == "" {
		t.Fatalf("first page: %+v, %v", page, err)
	}
	if _, err := listing.List(t.Context(), s, store.Query{UID: "u4", Cursor: page.Next}); !errors.Is(err, store.ErrBadCursor) {
		t.Errorf("with another uid: %v, want ErrBadCursor", err)
	}
	for _, call := range []string{"Entries", "Get"} {
		s.fail = map[string]error{call: errors.New("down")}
		if _, err := listing.List(t.Context(), s, store.Query{UID: "u0"}); !errors.Is(err, s.fail[call]) {
			t.Errorf("%s fails: %v", call, err)
		}
	}
}

// A lane has a part in each shard. Segments are listed a thousand at a time, and the next ones
// begin with the next shard of the last lane.
func TestListContinuesWithTheNextShard(t *testing.T) {
	s := &fakeSource{}
	for i := range 999 {
		s.add("t", fmt.Sprintf("other-%03d", i), fmt.Sprintf("http://a%03d:80", i), 0, job.Waiting, "", 1)
	}
	var want []string
	for shard := range 3 {
		id := fmt.Sprintf("job-%d", shard)
		s.add("t", id, "http://b:80", shard, job.Waiting, "", 1)
		s.jobs[job.Key{Topic: "t", ID: id}].Spec.Destination = "http://b/"
		want = append(want, "t/"+id)
	}
	q := store.Query{Topic: "t", Endpoint: "http://b:80", Limit: 10}
	for _, order := range []store.Order{"", store.OrderDue} {
		q.States, q.Order = []job.State{job.Waiting}, order
		got, _ := all(t, s, q)
		must.Same(t, fmt.Sprintf("in order %q", order), got, want)
	}
}

// A lane has its waiting jobs in the order of their times, so a page looks only at those within the bounds of
// a filter, except where jobs wait for others of their order key.
func TestListFindsDueTimesWithoutLookingAtOthers(t *testing.T) {
	s := &fakeSource{}
	add := func(id, letter string, state job.State, score float64, next job.Instant) {
		s.add("t", id, letter+"|http://a:80", 0, state, "", score)
		s.jobs[job.Key{Topic: "t", ID: id}].NextAt = next
	}
	for i := range 20_000 {
		add(fmt.Sprintf("%05d", i), "M", job.States[i%2*3], float64(i), job.Instant(i)) // waiting or retrying
	}
	add("in-flight", "M", job.Running, -5, 15_004)
	add("parked", "N", job.Waiting, 1<<40, 15_005)
	for _, tt := range []struct {
		q    store.Query
		want string
	}{
		{store.Query{}, "t/in-flight t/15003 t/15004 t/15005 t/15006 t/parked"},
		{store.Query{States: []job.State{job.Waiting}}, "t/15004 t/15006 t/parked"},
		{store.Query{States: []job.State{job.Waiting, job.Retrying}}, "t/15003 t/15004 t/15005 t/15006 t/parked"},
	} {
		s.examined, s.loaded = 0, 0
		tt.q.DueFrom, tt.q.DueTo, tt.q.Limit = 15_003, 15_007, 3
		got, _ := all(t, s, tt.q)
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: %v", tt.q, got)
		}
		if s.examined > 1_000 || s.loaded > 100 {
			t.Errorf("%+v: examined %d entries and read %d jobs", tt.q, s.examined, s.loaded)
		}
	}
	delete(s.segments, store.Index{Name: "t|N|http://a:80"})
	for order, want := range map[store.Order]string{store.OrderDue: "t/15004 t/15006", store.OrderDueBack: "t/15006 t/15004"} {
		s.examined, s.loaded = 0, 0
		got, _ := all(t, s, store.Query{States: []job.State{job.Waiting}, Order: order, DueFrom: 15_003, DueTo: 15_007, Limit: 1})
		if strings.Join(got, " ") != want || s.examined > 1_000 || s.loaded > 100 {
			t.Errorf("%s: %v, examined %d entries and read %d jobs", order, got, s.examined, s.loaded)
		}
	}
}
