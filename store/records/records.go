// Package records makes the changes of stored jobs that are the same in each store that keeps its rows in a transaction: what a
// claim and a settlement make of a record's fields, and who has the turn of an order key.
package records

import (
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Touch notes that the job was changed at now.
func Touch(j *job.Job, now job.Instant) {
	j.Version, j.UpdatedAt = j.Version+1, max(now, j.CreatedAt)
}

// Claim makes the job running. A token is at least the time of its claim, so that it is unique even if the
// job was forgotten in between. prior is the time of the claim before, if the lease of that expired; otherwise 0.
func Claim(j *job.Job, now job.Instant) (from job.State, prior job.Instant) {
	if from = j.State; from == job.Running {
		prior, j.ExpiredLeases = job.Instant(j.Token), job.ExpiredLeasesAfter(j.ExpiredLeases)
	}
	j.Token, j.State = max(j.Token+1, uint64(now)), job.Running
	Touch(j, now)
	return from, prior
}

// Settling is what a settlement is to a record.
type Settling uint8

// What a settlement may be.
const (
	Stale    Settling = iota // the fencing token is not the current one, or an update ended the claim
	Extends                  // it extends the lease
	Applies                  // it ends the claim
	Repeated                 // it was applied before
)

// Meets decides what the settlement is to a record whose last settlement was one of the token settledBy; 0: none.
func Meets(j *job.Job, settledBy uint64, st *job.Settlement) Settling {
	switch {
	case j.Token != st.Token:
		return Stale
	case st.Extends() && j.State == job.Running:
		return Extends
	case st.Extends():
		return Stale
	case j.State == job.Running:
		return Applies
	case st.Token != 0 && settledBy == st.Token:
		return Repeated
	}
	return Stale
}

// Settle makes the change of a settlement that applies, and returns its answer, without Shed. The caller
// appends the attempt, see Attempt.
func Settle(j *job.Job, st *job.Settlement, now job.Instant) store.Settled {
	change := st.Change(j.CancelRequested)
	done := store.Settled{Status: store.Applied, To: change.To, Reason: strings.Clone(change.Reason), Now: now}
	done.NextAt, done.EndedAt = change.Times(now, j.CreatedAt)
	j.NextAt = done.NextAt
	if done.To.Final() {
		j.EndedAt, j.Reason = done.EndedAt, done.Reason
	}
	j.State, j.Attempts, j.Snoozes, j.ExpiredLeases = done.To, st.Attempts, st.Snoozes, st.ExpiredLeases
	Touch(j, now)
	done.UID, done.Version = j.UID, j.Version
	return done
}

// Attempt is the entry of the log that a settlement appends; nil: none.
func Attempt(st *job.Settlement, done *store.Settled) *job.Attempt {
	if st.Attempt == nil {
		return nil
	}
	a := *st.Attempt
	a.NextAt = done.NextAt
	return &a
}

// Extended is the answer to a settlement that extends the lease until a time.
func Extended(j *job.Job, until, now job.Instant) store.Settled {
	return store.Settled{Status: store.Applied, To: job.Running, NextAt: until, Now: now, UID: j.UID, Version: j.Version}
}

// OrderOf names an order key of a topic: topic/order_key. It is empty without one.
func OrderOf(topic, orderKey string) string {
	if orderKey == "" {
		return ""
	}
	return topic + "/" + orderKey
}

// TopicOf is the topic of an order key's name.
func TopicOf(order string) string {
	topic, _, _ := strings.Cut(order, "/")
	return topic
}
