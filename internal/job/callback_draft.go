package job

import "fmt"

// CallbacksDraft is the callbacks of a job as a client asks for them. Without an event, the job
// has none, whatever the defaults of its topic.
type CallbacksDraft struct {
	On    map[CallbackEvent]*CallbackDraft
	Retry *Retry
	// IncludeRequest: reports contain the headers and the body of the job.
	IncludeRequest *bool
}

// CallbackDraft is one of them.
type CallbackDraft struct {
	Destination *Destination
	Method      *string
	Headers     map[string]string
}

// Draft is what asks for the callbacks; nil for none.
func (c *Callbacks) Draft() *CallbacksDraft {
	if c == nil {
		return nil
	}
	d := &CallbacksDraft{On: map[CallbackEvent]*CallbackDraft{}, Retry: c.Retry, IncludeRequest: given(c.IncludeRequest)}
	for _, e := range CallbackEvents {
		if of := c.On(e); of != nil {
			d.On[e] = &CallbackDraft{Destination: &of.Destination, Method: given(of.Method), Headers: headerMap(of.Headers)}
		}
	}
	return d
}

// callbacks reads the callbacks of a draft; nil without any.
func (f *Findings) callbacks(d *CallbacksDraft) *Callbacks {
	if d == nil || len(d.On) == 0 && d.Retry == nil && d.IncludeRequest == nil {
		return nil
	}
	c := Callbacks{IncludeRequest: d.IncludeRequest != nil && *d.IncludeRequest}
	f.within("callbacks", func(f *Findings) { c.Retry = f.retry(d.Retry) })
	if len(d.On) == 0 {
		f.Add("callbacks", "must name an event: "+enumerate(CallbackEvents))
		return nil
	}
	for _, e := range CallbackEvents {
		if of := d.On[e]; of != nil {
			f.within(Field("callbacks").In(string(e)), func(f *Findings) { c.Set(e, f.callback(of)) })
		}
	}
	if n := c.headerBytes(); n > MaxHeaderBytes {
		f.Add("callbacks", fmt.Sprintf("the headers of all callbacks take %d bytes together; the limit is %d", n, MaxHeaderBytes))
	}
	return &c
}

// callbacksOf are the callbacks that replace those of s.
func (f *Findings) callbacksOf(d *CallbacksDraft, s *Spec, _ Bounds) *Callbacks {
	c := f.callbacks(d)
	if c != nil && s.Callbacks != nil {
		c.Replays = s.Callbacks.Replays // the number of its replays stays
	}
	return c
}

// headerBytes is the size of the headers of all callbacks.
func (c *Callbacks) headerBytes() (bytes int) {
	for _, of := range c.By {
		for _, h := range of.Headers {
			bytes += len(h.Name) + len(h.Value)
		}
	}
	return bytes
}

func (f *Findings) callback(d *CallbackDraft) *Callback {
	c := &Callback{Method: f.method(d.Method), Headers: f.headers(d.Headers)}
	if d.Destination == nil {
		f.Add("url", "is required")
	} else if f.Check("url", d.Destination.Check()) {
		c.Destination = *d.Destination
	}
	return c
}

// within reads a part of the draft; outer is its field.
func (f *Findings) within(outer Field, read func(f *Findings)) {
	var part Findings
	read(&part)
	_ = f.Take(outer, part.Err())
}
