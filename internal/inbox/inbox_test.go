package inbox_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

const (
	open = "failed_at IS NULL"
	// faultTransactions are those of each writer in TestFaults.
	faultTransactions = 30
)

func TestRows(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		o := b.options()
		o.Inboxes[0].Topics = job.TopicSet{"t", "order-*"}
		body := `{"b": 1.50,  "a":"é"}`
		b.put(`{"topic":"t","id":"a","url":"https://shop.example/a","delay":"1h","body":`+body+`}`,
			`{"topic":"order-timeout","url":"https://shop.example/b","id":""}`)
		bad := map[string]string{
			`no json`: "malformed_json", `{"url":"https://shop.example/","topic":"other"}`: "topics t, order-*",
			`{"topic":"t","url":"ftp://shop.example/"}`: "/url", `{"topic":"t","url":"https://shop.example/","dely":"1h"}`: "delay",
			`{"topic":"t","id":"a","url":"https://shop.example/other"}`: "job_exists", `{"topic":"t","url":"https://s.example/","uid":"x"}`: "/uid",
			`{"topic":"t","url":"https://shop.example/","body":"` + strings.Repeat("x", int(o.MaxRequest)) + `"}`: "bytes",
		}
		for request := range bad {
			b.put(request)
		}
		b.start(o)
		b.drained(open)
		must.Equal(t, "failed rows", b.count("failed_at IS NOT NULL"), len(bad))
		a := b.get("t", "a")
		must.Equal(t, "the body", string(a.Spec.Body), body)
		must.Equal(t, "jobs", len(b.jobs()), 2)
		rows, err := b.db.QueryContext(t.Context(), "SELECT request, error FROM duehook_inbox")
		must.OK(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var request, text string
			must.OK(t, rows.Scan(&request, &text))
			if !strings.Contains(text, bad[request]) {
				t.Errorf("the error of %.80s is %q, want %q in it", request, text, bad[request])
			}
		}
		must.OK(t, rows.Err())
	})
}

// TestAge: the delay counts from the time of the row, an absolute time does not.
func TestAge(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		b.put(`{"topic":"t","id":"delay","url":"https://shop.example/","delay":"30m"}`, `{"topic":"t","id":"past","url":"https://shop.example/","delay":"1m"}`,
			`{"topic":"t","id":"at","url":"https://shop.example/","at":"`+at.Format(time.RFC3339)+`"}`)
		_, err := b.db.ExecContext(t.Context(), "UPDATE duehook_inbox SET created_at = created_at - INTERVAL '10' MINUTE")
		must.OK(t, err)
		b.start(b.options())
		b.drained(open)
		delay, past := b.get("t", "delay"), b.get("t", "past")
		left := delay.DueAt.Sub(delay.CreatedAt)
		if left > 20*time.Minute || left < 18*time.Minute {
			t.Errorf("a row of 10 minutes with a delay of 30 is due in %v", left)
		}
		must.Equal(t, "an old one is due in", past.DueAt.Sub(past.CreatedAt), 0)
		must.Equal(t, "an absolute time", b.get("t", "at").DueAt, job.InstantOf(at))
	})
}

// TestOnce: a row that comes again after a crash is the job that it was, whatever became of the job.
func TestOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		stopped := errors.New("stopped")
		o := b.options()
		at := make(chan string, 1)
		b.put(`{"topic":"t","id":"replace","url":"https://shop.example/","delay":"1h","on_conflict":"replace"}`,
			`{"topic":"t","id":"later","url":"https://shop.example/","delay":"1h","on_conflict":"later"}`,
			`{"topic":"t","id":"cancelled","url":"https://shop.example/","delay":"1h"}`,
			`{"topic":"t","id":"once","url":"https://shop.example/","delay":"1h","on_conflict":"once"}`)
		_, stop := b.start(inbox.WithStep(o, func(_, step string) error {
			if step == "delete" {
				select {
				case at <- step:
				default:
				}
				return stopped
			}
			return nil
		}))
		<-at
		stop()
		must.Equal(t, "rows that are left", b.count(open), 4)
		before := b.jobs()
		key := job.Key{Topic: "t", ID: "cancelled"}
		_, _, err := b.app.Cancel(t.Context(), key)
		must.OK(t, err)
		b.start(o)
		b.drained("1 = 1")
		after := b.jobs()
		for id, was := range before {
			is := after[id]
			must.Equal(t, id+" has the uid", is.UID, was.UID)
			must.Equal(t, id+" is due", is.DueAt, was.DueAt)
		}
		must.Equal(t, "cancelled is", after["cancelled"].State, job.Cancelled)
	})
}

// TestRepeatedKeys: rows for one key take effect in their order, also if the node stops after each call.
func TestRepeatedKeys(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		o := b.options()
		for i := range 5 {
			b.put(fmt.Sprintf(`{"topic":"t","id":"one","url":"https://shop.example/%d","delay":"1h","on_conflict":"replace"}`, i))
		}
		deletes := 0
		b.start(inbox.WithStep(o, func(_, step string) error {
			if step != "delete" {
				return nil
			}
			if deletes++; deletes%2 == 1 {
				return errors.New("stopped")
			}
			return nil
		}))
		b.drained("1 = 1")
		must.Equal(t, "the last one", string(b.get("t", "one").Spec.Destination), "https://shop.example/4")
		must.Equal(t, "jobs that were made", b.store.created["one"], 5)
	})
}

// TestFullTopic: rows of a full topic wait in their order, and others pass.
func TestFullTopic(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		must.OK(t, b.store.SetLimits(t.Context(), "full", store.Limits{Capacity: 2}))
		const n = 40
		for i := range n {
			b.put(fmt.Sprintf(`{"topic":"full","id":"f%02d","url":"https://shop.example/","delay":"1h"}`, i))
		}
		b.put(`{"topic":"t","id":"passes","url":"https://shop.example/"}`)
		_, stop := b.start(b.options())
		testenv.Eventually(t, testenv.Patience, func() bool { return b.count("waits_for = 'full'") == n-2 }, "rows wait")
		b.get("t", "passes")
		must.OK(t, b.store.SetLimits(t.Context(), "full", store.Limits{Capacity: 5}))
		testenv.Eventually(t, testenv.Patience, func() bool { return b.count("waits_for = 'full'") == n-5 }, "as many as there is room for are jobs")
		stop() // another node goes on
		must.OK(t, b.store.SetLimits(t.Context(), "full", store.Limits{}))
		b.start(b.options())
		b.put(`{"topic":"full","id":"f99","url":"https://shop.example/","delay":"1h"}`)
		b.drained("1 = 1")
		order := slices.DeleteFunc(b.store.order, func(id string) bool { return id == "passes" })
		must.Equal(t, "jobs", len(order), n+1)
		must.Equal(t, "the order is kept", slices.IsSorted(order), true)
	})
}

// TestInFlight: a row whose job is in flight waits for it.
func TestInFlight(t *testing.T) {
	b := newBench(t, engines[0])
	b.put(`{"topic":"t","id":"a","url":"https://shop.example/"}`)
	b.start(b.options())
	b.drained("1 = 1")
	taken, err := b.store.Take(t.Context(), 0, takeOne)
	must.OK(t, err)
	must.Equal(t, "claims", len(taken.Claims), 1)
	b.put(`{"topic":"t","id":"a","url":"https://shop.example/new","on_conflict":"replace"}`, `{"topic":"t","id":"b","url":"https://shop.example/"}`)
	testenv.Eventually(t, testenv.Patience, func() bool { return b.count("waits_for = 't/a'") == 1 }, "the row waits")
	b.drained("waits_for IS NULL")
	b.get("t", "b")
	c := taken.Claims[0]
	_, err = b.store.Settle(t.Context(), []job.Settlement{delivered(&c.Job)})
	must.OK(t, err)
	b.drained("1 = 1")
	must.Equal(t, "the new job", string(b.get("t", "a").Spec.Destination), "https://shop.example/new")
}

// TestHeld: rows stay while the store is held, also those that have been read.
func TestHeld(t *testing.T) {
	b := newBench(t, engines[0])
	free, held := make(chan struct{}), make(chan struct{})
	close(free)
	var is atomic.Pointer[chan struct{}]
	var looks atomic.Int64
	stays := func() {
		t.Helper()
		from := looks.Load()
		testenv.Eventually(t, testenv.Patience, func() bool { return looks.Load() > from+3 }, "the reader looks")
		must.Equal(t, "rows", b.count(open), 1)
		must.Equal(t, "jobs", len(b.jobs()), 0)
	}
	is.Store(&held)
	o := inbox.WithPause(b.options(), time.Millisecond)
	o.Free = func() <-chan struct{} {
		looks.Add(1)
		return *is.Load()
	}
	once := true
	m, _ := b.start(inbox.WithStep(o, func(_, step string) error {
		if step == "register" && once {
			once = false
			is.Store(&held)
		}
		return nil
	}))
	b.put(`{"topic":"t","id":"a","url":"https://shop.example/"}`)
	stays()
	s := m.Statuses(t.Context())[0]
	if s.Reading || s.Fresh != 1 || !strings.Contains(s.Error, "held") {
		t.Errorf("the status is %+v", s)
	}
	is.Store(&free)
	testenv.Eventually(t, testenv.Patience, func() bool { return is.Load() == &held }, "a row has been read")
	stays()
	is.Store(&free)
	b.drained("1 = 1")
	testenv.Eventually(t, testenv.Patience, func() bool { return m.Statuses(t.Context())[0].Error == "" }, "the inbox is read")
}

// TestGroup: a row that names a group makes a job for each member, once.
func TestGroup(t *testing.T) {
	b := newBench(t, engines[0])
	makeGroup(t, b)
	b.put(`{"topic":"t","group":"shops","id":"g","body":1,"delay":"1h"}`, `{"topic":"t","group":"none","id":"h"}`)
	once := true
	b.start(inbox.WithStep(b.options(), func(_, step string) error {
		if step == "delete" && once {
			once = false
			return errors.New("stopped")
		}
		return nil
	}))
	b.drained(open)
	must.Equal(t, "jobs", len(b.jobs()), 2)
	must.Same(t, "made", b.store.created, map[string]int{"g:one": 1, "g:two": 1})
	must.Equal(t, "failed rows", b.count("failed_at IS NOT NULL"), 1)
}

// TestOrder: rows of a transaction keep their order, whatever commits meanwhile.
func TestOrder(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.start(b.options())
		const writers, transactions, rows = 4, 30, 5
		b.write(writers, transactions, func(tx transaction) {
			for i := range rows {
				tx.insert(fmt.Sprintf(`{"topic":"t","id":"%d-%d-%d","url":"https://shop.example/","delay":"1h"}`, tx.writer, tx.number, i))
			}
		})
		b.drained("1 = 1")
		must.Equal(t, "jobs", len(b.store.order), writers*transactions*rows)
		next := map[string]byte{}
		for _, id := range b.store.order {
			of, i := id[:len(id)-1], id[len(id)-1]
			if want := max(next[of], '0'); i != want {
				t.Fatalf("the job %s was made when %c of its transaction was next", id, want)
			}
			next[of] = i + 1
		}
	})
}

// TestFaults: whatever stops between any two steps, on two nodes that both take themselves for the leader, each committed
// row is one job, and others are none.
func TestFaults(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		one := func(in int) bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(in) == 0
		}
		b.store.fail = func() (before, after error) {
			switch {
			case one(12):
				return store.ErrUnavailable, nil
			case one(12): // it is registered, and nobody knows
				return nil, store.ErrUnavailable
			}
			return nil, nil
		}
		o := inbox.WithStep(b.options(), func(string, string) error {
			if one(15) {
				return errors.New("stopped")
			}
			return nil
		})
		_, stopA := b.start(o)
		b.start(o)
		wanted, bad := map[string]int{}, 0
		written := make(chan struct{})
		go func() {
			defer close(written)
			b.write(4, faultTransactions, func(tx transaction) {
				lost := tx.number%7 == 3
				for i := range 5 {
					id := fmt.Sprintf("%d-%d-%d", tx.writer, tx.number, i)
					policy := []string{"reject", "replace", "later", "once", "ignore"}[i]
					request := fmt.Sprintf(`{"topic":"t","id":"%s","url":"https://shop.example/","delay":"1h","on_conflict":"%s"}`, id, policy)
					if tx.number%20 == 5 && i == 2 {
						request = "{"
					}
					tx.insert(request)
					if lost {
						continue
					}
					mu.Lock()
					if request == "{" {
						bad++
					} else {
						wanted[id] = 1
					}
					mu.Unlock()
				}
				if lost {
					tx.rollBack()
				}
			})
		}()
		<-written
		must.OK(t, b.e.server.Kill())
		must.OK(t, b.e.server.Start())
		stopA()
		b.start(o)
		b.drained(open)
		must.Equal(t, "failed rows", b.count("failed_at IS NOT NULL"), bad)
		must.Same(t, "jobs that were made", b.store.created, wanted)
		must.Equal(t, "jobs", len(b.jobs()), len(wanted))
	})
}

// TestNotify: a notification wakes the reader.
func TestNotify(t *testing.T) {
	b := newBench(t, engines[0])
	b.start(inbox.WithPause(b.options(), time.Hour))
	for i := range 20 {
		b.put(fmt.Sprintf(`{"topic":"t","id":"%d","url":"https://shop.example/"}`, i))
		_, err := b.db.ExecContext(t.Context(), "NOTIFY duehook_inbox")
		must.OK(t, err)
		b.drained("1 = 1")
	}
}
