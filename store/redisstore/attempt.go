package redisstore

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/duehook/duehook/job"
)

// encodeAttempt is an entry of the log as msgpack encodes a job.Attempt, without
// NextAt: the settling script writes it before the entry, because only it knows
// the time. One is written for each delivery, so it is done by hand: reflection
// takes 22 allocations for it.
func encodeAttempt(a *job.Attempt) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, 96+len(a.ResponseBody)))
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(b)
	w := fieldWriter{e: e}
	t := &a.Timings
	w.begin(3 + present(*t != job.Timings{}, a.Status != 0, a.Error != "", a.ResponseBody != "", a.Reason != ""))
	w.number("n", int64(a.Number))
	w.number("s", int64(a.StartedAt))
	w.number("d", int64(a.Duration))
	if *t != (job.Timings{}) {
		w.text("t")
		w.begin(present(t.DNS != 0, t.Connect != 0, t.TLS != 0, t.FirstByte != 0, t.Reused))
		w.numberIfAny("d", int64(t.DNS))
		w.numberIfAny("c", int64(t.Connect))
		w.numberIfAny("t", int64(t.TLS))
		w.numberIfAny("f", int64(t.FirstByte))
		if t.Reused {
			w.text("r")
			w.note(e.EncodeBool(true))
		}
	}
	w.numberIfAny("c", int64(a.Status))
	w.textIfAny("e", a.Error)
	w.textIfAny("b", a.ResponseBody)
	w.textIfAny("r", a.Reason)
	if w.err != nil {
		return nil, fmt.Errorf("redisstore: encode attempt: %w", w.err)
	}
	return b.Bytes(), nil
}

// fieldWriter writes maps, and keeps the first error.
type fieldWriter struct {
	e   *msgpack.Encoder
	err error
}

func (w *fieldWriter) note(err error) {
	if w.err == nil {
		w.err = err
	}
}

// begin begins a map of so many fields.
func (w *fieldWriter) begin(fields int) { w.note(w.e.EncodeMapLen(fields)) }

func (w *fieldWriter) text(s string) { w.note(w.e.EncodeString(s)) }

func (w *fieldWriter) number(name string, n int64) {
	w.text(name)
	w.note(w.e.EncodeInt(n))
}

func (w *fieldWriter) numberIfAny(name string, n int64) {
	if n != 0 {
		w.number(name, n)
	}
}

func (w *fieldWriter) textIfAny(name, s string) {
	if s != "" {
		w.text(name)
		w.text(s)
	}
}

// present is how many of the fields are there.
func present(fields ...bool) (n int) {
	for _, there := range fields {
		if there {
			n++
		}
	}
	return n
}
