package pulls

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// A consumer can write the time in its receipt anew. The log of attempts has a time that is possible.
func TestReceiptWithAnotherTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 1)
		for i, at := range []job.Instant{math.MaxInt64, math.MinInt64, 1 << 53} {
			id := fmt.Sprint(i)
			n.register("t", id, 0)
			got, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: 1, Lease: time.Minute})
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			forged, _ := parseReceipt(got[0].Receipt)
			leased := forged.at
			forged.at = at
			if r, err := n.managers[0].Ack(t.Context(), everything, []string{forged.String()}); err != nil || r[0] != OK {
				t.Fatal(r, err)
			}
			log, err := store.Attempts(t.Context(), n.store, job.Key{Topic: "t", ID: id})
			if err != nil || len(log) != 1 {
				t.Fatal(log, err)
			}
			if a := log[0]; a.StartedAt != leased || a.Duration != 0 {
				t.Errorf("a receipt of %d: the attempt began at %d and took %v, but was at %d", at, a.StartedAt, a.Duration, leased)
			}
		}
	})
}

// Calls that wait for ever new topics are refused, before the server has to go through millions of them.
func TestTopicsWithWaitingCallsAreBounded(t *testing.T) {
	ws := newWaiters(job.SystemClock(), nil)
	topics, n := make([]string, 1000), 0
	next := func() *waiter {
		for i := range topics {
			topics[i] = fmt.Sprint(n)
			n++
		}
		return &waiter{topics: append([]string(nil), topics...)}
	}
	var waiting []*waiter
	for n < maxTopics {
		w := next()
		if _, err := ws.enter(w); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, w)
	}
	more := next()
	if _, err := ws.enter(more); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a call for other topics: %v", err)
	}
	ws.beginLook(more.topics)
	if len(ws.of) > maxTopics {
		t.Errorf("%d topics are remembered", len(ws.of))
	}
	if _, err := ws.enter(&waiter{topics: waiting[0].topics}); err != nil {
		t.Errorf("a call for the same topics: %v", err)
	}
	ws.leave(waiting[1])
	if _, err := ws.enter(more); err != nil {
		t.Errorf("a call for other topics when one has left: %v", err)
	}
}
