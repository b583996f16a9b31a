package simulation

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// TestPlainLadder runs a job down the whole default ladder, 25 hours, to the dead
// letters: each attempt has to come at its millisecond.
func TestPlainLadder(t *testing.T) { runLadder(t, inMemory) }

func runLadder(t *testing.T, open func(*testing.T, *plan) backend) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) { simulateLadder(t, open) })
	t.Logf("25 h in %v", time.Since(began).Round(time.Millisecond))
}

const (
	ladderDelay = 30 * time.Minute
	answerTime  = 40 * time.Millisecond
)

func simulateLadder(t *testing.T, open func(*testing.T, *plan) backend) {
	p := &plan{direct: true, nodes: 1, shards: 1, retention: time.Hour, policy: retrypolicy.Default()}
	p.policy.Jitter = 0
	// Poll rarely: the store announces due jobs anyway.
	p.carrier = carrier.Options{Poll: time.Minute, LockTTL: 10 * time.Minute, Housekeeping: time.Hour}
	p.dispatch.Policy = p.policy
	w := newWorld(t, p, open(t, p))
	w.isCalm.Store(true)
	w.receivers.always = &answer{takes: answerTime, status: http.StatusInternalServerError}
	w.nodes[0].start()
	c := &client{w: w, name: "c", rand: source(0, "ladder", 0)}
	status, v := c.call(w.nodes[0], http.MethodPost, "/v1/jobs",
		fmt.Sprintf(`{"topic":"orders","id":"1","url":"%s/hook","delay":"%s"}`, endpoints[0], job.FormatDuration(ladderDelay)))
	if status != http.StatusCreated {
		t.Fatalf("registering: %d %s", status, v.Code)
	}

	whole := ladderDelay
	for _, step := range p.policy.Steps {
		whole += step
	}
	w.sleep(whole + time.Minute)
	w.nodes[0].process().stop()
	checkLadder(t, w)
	if err := w.store.Close(); err != nil {
		t.Error(err)
	}
	w.backend.close()
}

func checkLadder(t *testing.T, w *world) {
	ctx, key := context.Background(), job.Key{Topic: "orders", ID: "1"}
	j, err := w.store.Get(ctx, key)
	must.OK(t, err)
	if j.State != job.Dead || j.Reason != job.ReasonRetryLimit || j.Attempts != 10 {
		t.Errorf("the job is %v (%s) after %d attempts", j.State, j.Reason, j.Attempts)
	}
	log, err := store.Attempts(ctx, w.store, key)
	must.OK(t, err)
	if len(log) != 10 || len(w.history.requests) != 10 {
		t.Fatalf("%d attempts in the log, %d requests", len(log), len(w.history.requests))
	}
	steps, due := w.policy.Steps, j.CreatedAt.Add(ladderDelay)
	for i, q := range w.history.requests {
		// Stores cut their now to milliseconds, so that a carrier may wake one late.
		sent := job.InstantOf(w.start.Add(q.sent))
		if sent < due || sent > due+1 {
			t.Errorf("attempt %d was sent at %d, due at %d", q.attempt, sent, due)
		}
		if want := due.Time().Format("2006-01-02T15:04:05.000Z"); q.due != want || q.attempt != i+1 {
			t.Errorf("attempt %d says %d, due at %s; want %s", i+1, q.attempt, q.due, want)
		}
		if due = log[i].NextAt; i == len(steps) {
			break
		}
		if want := sent.Add(answerTime + steps[i]); due != want {
			t.Errorf("attempt %d was sent at %d, the next is due at %d; want %d", q.attempt, sent, due, want)
		}
	}
	must.Equal(t, "the last attempt names a next one, at", due, 0)
}
