package camellia

import (
	"time"

	"github.com/duehook/duehook/internal/job"
)

// The statuses of messages.
const (
	waiting   = 1
	ready     = 2
	consuming = 3
	consumed  = 4
	expired   = 5
	exhausted = 6
	deleted   = 7
)

// nearly is how soon a new message is due that is ready from the start.
const nearly = 100 * time.Millisecond

// message is a message as clients see it. Times are in milliseconds since 1970.
type message struct {
	ExpireTime  job.Instant `json:"expireTime"`
	MaxRetry    int         `json:"maxRetry"`
	Msg         string      `json:"msg"`
	MsgID       string      `json:"msgId"`
	ProduceTime job.Instant `json:"produceTime"`
	Retry       int         `json:"retry"` // deliveries
	Status      int         `json:"status"`
	Topic       string      `json:"topic"`
	TriggerTime job.Instant `json:"triggerTime"`
}

func (a *api) view(j *job.Job) message {
	m := message{
		ExpireTime: j.ExpiresAt, MaxRetry: a.App.Policy().For(j.Spec.Retry).Limit, Msg: string(j.Spec.Body), MsgID: job.TextOfName(j.ID), ProduceTime: j.CreatedAt,
		Retry: deliveries(j), Status: statusOf(j, a.now()), Topic: job.TextOfName(j.Topic), TriggerTime: j.DueAt,
	}
	return m
}

// deliveries is how often the message was pulled.
func deliveries(j *job.Job) int {
	if j.State == job.Running {
		return j.Attempts + 1
	}
	return j.Attempts
}

// statusOf is the status of a message. One whose time has passed has ended, though it is stored
// as unfinished until a consumer asks for it.
func statusOf(j *job.Job, now job.Instant) int {
	over := !j.State.Final() && j.ExpiresAt != 0 && j.ExpiresAt <= now
	switch {
	case j.State == job.Delivered:
		return consumed
	case j.State == job.Cancelled, j.CancelRequested:
		return deleted
	case over || j.State.Final():
		if deliveries(j) == 0 {
			return expired
		}
		return exhausted
	case deliveries(j) > 0:
		return consuming
	case j.DueAt <= now, j.DueAt.Sub(j.CreatedAt) <= nearly:
		return ready
	}
	return waiting
}

// ended reports whether a message has ended.
func ended(j *job.Job, now job.Instant) bool { return statusOf(j, now) >= consumed }
