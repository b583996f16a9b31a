package encoding

import (
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/duehook/duehook/job"
)

// AppendReport appends a Report to b. Its times that follow from the time of the event are left
// out.
func AppendReport(b []byte, r *job.Report) []byte {
	j := &r.Job
	return appendMap(b, func(w *writer) {
		w.text("k", j.Topic)
		w.text("i", j.ID)
		w.text("u", j.UID)
		w.b = AppendSpec(w.key("s"), &j.Spec)
		w.integer("t", int64(j.State))
		w.integer("d", int64(j.DueAt))
		w.integer("e", int64(j.ExpiresAt))
		w.integer("c", int64(j.CreatedAt))
		w.array("n", 3)
		for _, n := range []int{j.Attempts, j.Snoozes, j.ExpiredLeases} {
			w.b = appendInt(w.b, int64(n))
		}
		w.integer("q", j.Counted)
		if j.Fired {
			w.b = msgp.AppendBool(w.key("f"), true)
		}
		w.b = msgp.AppendUint64(w.key("v"), j.Version)
		w.text("r", j.Reason)
		if j.LastAttempt != nil {
			w.b = AppendAttempt(w.key("a"), j.LastAttempt)
		}
		w.integer("l", int64(r.Delay))
		if r.Response != nil {
			w.b = msgp.AppendBytes(w.key("p"), r.Response.Body)
			w.b = msgp.AppendBool(w.key("z"), r.Response.Cut)
		}
	})
}

// DecodeReport reads what AppendReport wrote. It shares no memory with b.
func DecodeReport(b []byte, to *job.Report) error {
	var response job.Response
	r, j := reader{b: b}, &to.Job
	r.fields(func(name string) {
		switch name {
		case "k":
			j.Topic = r.text()
		case "i":
			j.ID = r.text()
		case "u":
			j.UID = r.text()
		case "s":
			r.spec(&j.Spec)
		case "t":
			j.State = job.State(r.integer())
		case "d":
			j.DueAt = job.Instant(r.integer())
		case "e":
			j.ExpiresAt = job.Instant(r.integer())
		case "c":
			j.CreatedAt = job.Instant(r.integer())
		case "n":
			counts := []*int{&j.Attempts, &j.Snoozes, &j.ExpiredLeases}
			r.elements(func() {
				if n := int(r.integer()); len(counts) > 0 {
					*counts[0], counts = n, counts[1:]
				}
			})
		case "q":
			j.Counted = r.integer()
		case "f":
			j.Fired = r.boolean()
		case "v":
			j.Version = r.unsigned()
		case "r":
			j.Reason = r.text()
		case "a":
			j.LastAttempt = &job.Attempt{}
			r.attempt(j.LastAttempt)
		case "l":
			to.Delay = time.Duration(r.integer())
		case "p":
			response.Body, to.Response = r.bytes(), &response
		case "z":
			response.Cut = r.boolean()
		default:
			r.skip()
		}
	})
	return r.err
}

func (w *writer) callbacks(name string, c *job.Callbacks) {
	if c == nil {
		return
	}
	w.b = appendMap(w.key(name), func(w *writer) {
		for _, e := range job.CallbackEvents {
			w.callback(string(e), c.On(e))
		}
		w.retry("retry", c.Retry)
		w.integer("replays", int64(c.Replays))
	})
}

func (w *writer) callback(name string, c *job.Callback) {
	if c == nil {
		return
	}
	w.b = appendMap(w.key(name), func(w *writer) {
		w.always("u", string(c.Destination))
		w.text("m", c.Method)
		w.headers("h", c.Headers)
	})
}

func (r *reader) callbacks() *job.Callbacks {
	var c job.Callbacks
	r.fields(func(name string) {
		switch name {
		case string(job.CallbackDelivered), string(job.CallbackDead), string(job.CallbackExpired),
			string(job.CallbackCancelled), string(job.CallbackAttemptFailed):
			c.Set(job.CallbackEvent(name), r.callback())
		case "retry":
			c.Retry = r.retry()
		case "replays":
			c.Replays = int(r.integer())
		default:
			r.skip()
		}
	})
	return &c
}

func (r *reader) callback() *job.Callback {
	var c job.Callback
	r.fields(func(name string) {
		switch name {
		case "u":
			c.Destination = job.Destination(r.text())
		case "m":
			c.Method = r.text()
		case "h":
			c.Headers = r.headers()
		default:
			r.skip()
		}
	})
	return &c
}
