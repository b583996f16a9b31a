package encoding

import (
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/duehook/duehook/job"
)

// DecodeSpec reads what AppendSpec wrote. It shares no memory with b.
func DecodeSpec(b []byte, s *job.Spec) error {
	r := reader{b: b}
	r.spec(s)
	return r.err
}

func (r *reader) spec(s *job.Spec) {
	r.fields(func(name string) {
		switch name {
		case "u":
			s.Destination = job.Destination(r.text())
		case "m":
			s.Method = r.text()
		case "b":
			s.BizKey = r.text()
		case "c":
			s.ContentType = r.text()
		case "h":
			s.Headers = r.headers()
		case "p":
			s.Body = r.bytes()
		case "f":
			s.BodyForm = job.BodyForm(r.integer())
		case "o":
			s.Priority = job.Priority(r.integer())
		case "w":
			s.When, s.Occurrence = r.when()
		case "r":
			s.Retry = r.retry()
		case "t":
			s.Timeout = time.Duration(r.integer())
		case "l":
			s.TTL = time.Duration(r.integer())
		case "e":
			s.ExpectBody = r.text()
		case "x":
			s.Traceparent = r.text()
		case "g":
			s.Labels = r.labels()
		case "i":
			s.Loop = r.loop()
		case "v":
			s.Group = r.membership()
		case "k":
			s.Callbacks = r.callbacks()
		case "y":
			s.Reports = job.CallbackEvent(r.text())
		case "q":
			s.OrderKey = r.text()
		case "n":
			s.Count = r.count()
		default:
			r.skip()
		}
	})
}

// DecodeAttempt reads what AppendAttempt wrote. It shares no memory with b.
func DecodeAttempt(b []byte, a *job.Attempt) error {
	r := reader{b: b}
	r.attempt(a)
	return r.err
}

func (r *reader) attempt(a *job.Attempt) {
	r.fields(func(name string) {
		switch name {
		case "n":
			a.Number = int(r.integer())
		case "s":
			a.StartedAt = job.Instant(r.integer())
		case "d":
			a.Duration = time.Duration(r.integer())
		case "t":
			a.Timings = r.timings()
		case "c":
			a.Status = int(r.integer())
		case "e":
			a.Error = r.text()
		case "b":
			a.ResponseBody = r.text()
		case "a":
			a.NextAt = job.Instant(r.integer())
		case "r":
			a.Reason = r.text()
		case "h":
			a.ResponseHeaders = r.headers()
		case "v":
			a.Version = r.unsigned()
		case "x":
			a.ConnectRetries = int(r.integer())
		default:
			r.skip()
		}
	})
}

func (r *reader) when() (t job.When, o *job.Occurrence) {
	r.fields(func(name string) {
		switch name {
		case "a":
			t.At = job.Instant(r.integer())
		case "d":
			t.Delay = time.Duration(r.integer())
		case "j":
			t.Spread = time.Duration(r.integer())
		case "s":
			o = r.occurrence()
		default:
			r.skip()
		}
	})
	return t, o
}

func (r *reader) loop() *job.Loop {
	var l job.Loop
	r.fields(func(name string) {
		switch name {
		case "f":
			l.First = r.text()
		case "n":
			l.Rounds = int(r.integer())
		case "w":
			l.Wait = time.Duration(r.integer())
		case "b":
			l.NewBody = r.boolean()
		default:
			r.skip()
		}
	})
	return &l
}

func (r *reader) occurrence() *job.Occurrence {
	var o job.Occurrence
	r.fields(func(name string) {
		switch name {
		case "n":
			o.Schedule = r.text()
		case "t":
			o.Time = job.Instant(r.integer())
		case "k":
			o.Kind = job.OccurrenceKind(r.text())
		default:
			r.skip()
		}
	})
	return &o
}

func (r *reader) membership() *job.Membership {
	var m job.Membership
	r.fields(func(name string) {
		switch name {
		case "n":
			m.Group = r.text()
		case "l":
			m.FilterLabel = r.text()
		case "p":
			m.Position = int(r.integer())
		case "s":
			m.Size = int(r.integer())
		case "h":
			m.Headers = int(r.integer())
		default:
			r.skip()
		}
	})
	return &m
}

func (r *reader) count() *job.Count {
	var c job.Count
	r.fields(func(name string) {
		switch name {
		case "t":
			c.Target = r.integer()
		case "d":
			c.AtDeadline = job.AtDeadline(r.text())
		default:
			r.skip()
		}
	})
	return &c
}

func (r *reader) retry() *job.Retry {
	var retry job.Retry
	r.fields(func(name string) {
		switch name {
		case "s":
			r.elements(func() { retry.Steps = append(retry.Steps, time.Duration(r.integer())) })
		case "l":
			limit := int(r.integer())
			retry.Limit = &limit
		default:
			r.skip()
		}
	})
	return &retry
}

func (r *reader) headers() (headers []job.Header) {
	r.elements(func() {
		var h job.Header
		r.fields(func(name string) {
			switch name {
			case "n":
				h.Name = r.text()
			case "v":
				h.Value = r.text()
			default:
				r.skip()
			}
		})
		headers = append(headers, h)
	})
	return headers
}

func (r *reader) labels() (labels []job.Label) {
	r.elements(func() {
		var l job.Label
		r.fields(func(name string) {
			switch name {
			case "k":
				l.Key = r.text()
			case "v":
				l.Value = r.text()
			default:
				r.skip()
			}
		})
		labels = append(labels, l)
	})
	return labels
}

func (r *reader) timings() (t job.Timings) {
	r.fields(func(name string) {
		switch name {
		case "d":
			t.DNS = time.Duration(r.integer())
		case "c":
			t.Connect = time.Duration(r.integer())
		case "t":
			t.TLS = time.Duration(r.integer())
		case "f":
			t.FirstByte = time.Duration(r.integer())
		case "r":
			t.Reused = r.boolean()
		default:
			r.skip()
		}
	})
	return t
}

// reader reads values one after the other. After an error it reads none.
type reader struct {
	b   []byte
	err error
}

// read reads a value with a function of the library; the zero value after an error.
func read[T any](r *reader, of func([]byte) (T, []byte, error)) (v T) {
	if r.err != nil {
		return v
	}
	v, r.b, r.err = of(r.b)
	return v
}

func (r *reader) text() string     { return read(r, msgp.ReadStringBytes) }
func (r *reader) integer() int64   { return read(r, msgp.ReadInt64Bytes) }
func (r *reader) unsigned() uint64 { return read(r, msgp.ReadUint64Bytes) }
func (r *reader) boolean() bool    { return read(r, msgp.ReadBoolBytes) }

func (r *reader) bytes() []byte {
	return read(r, func(b []byte) ([]byte, []byte, error) { return msgp.ReadBytesBytes(b, nil) })
}

// skip skips a field that a newer version wrote.
func (r *reader) skip() {
	read(r, func(b []byte) (struct{}, []byte, error) {
		rest, err := msgp.Skip(b)
		return struct{}{}, rest, err
	})
}

// fields calls each for every field of a map, with its name.
func (r *reader) fields(each func(name string)) {
	for n := read(r, msgp.ReadMapHeaderBytes); n > 0 && r.err == nil; n-- {
		if name := r.text(); r.err == nil {
			each(name)
		}
	}
}

// elements calls each for every element of an array.
func (r *reader) elements(each func()) {
	for n := read(r, msgp.ReadArrayHeaderBytes); n > 0 && r.err == nil; n-- {
		each()
	}
}
