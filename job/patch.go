package job

// Patch reads the draft as a change of job j: the Spec that it will have, and
// when it is to be due, or nil if that stays. Fields that are absent stay as
// they are; headers, labels and retry are replaced whole, so that {} takes them
// back to none and to the server's policy. now serves only to see how far ahead "at"
// is. Errors are those of Registration. j itself is not changed, nor is it
// asked whether it may be.
func (d *Draft) Patch(j *Job, l Limits, now Instant) (Spec, *When, error) {
	var f findings
	f.refuseFixed(d)
	if d.changesNothing() && len(f.fields) == 0 {
		f.add("", "must change something: delay, at, url, headers, body, body_text, body_base64, content_type, retry, ttl, labels or priority")
	}
	s := j.Spec
	w := f.when(d, now)
	if w != nil {
		s.When = *w
	}
	if d.URL != nil {
		f.check("/url", CheckURL(*d.URL))
		s.URL = *d.URL
	}
	if d.Headers != nil {
		s.Headers = f.headers(d.Headers)
	}
	if d.Retry != nil {
		s.Retry = f.retry(d.Retry)
	}
	if given(d.TTL) {
		s.TTL = f.ttl(d)
	}
	if d.Labels != nil {
		s.Labels = f.labels("/labels", d.Labels)
	}
	if d.Priority != nil {
		s.Priority = f.priority("/priority", d.Priority)
	}
	f.body(d, &s, l)
	if err := f.err(); err != nil {
		return Spec{}, nil, err
	}
	return s, w, nil
}

// refuseFixed refuses the fields that a job keeps for life: those that address
// it, and those that its deliveries promise to hold to.
func (f *findings) refuseFixed(d *Draft) {
	fixed := []struct {
		pointer string
		given   bool
	}{
		{"/topic", d.Topic != nil},
		{"/id", d.ID != nil},
		{"/biz_key", d.BizKey != nil},
		{"/method", d.Method != nil},
		{"/timeout", given(d.Timeout)},
		{"/expect", d.Expect != nil},
		{"/on_conflict", d.OnConflict != nil},
	}
	for _, field := range fixed {
		if field.given {
			f.add(field.pointer, "cannot be changed; cancel the job and register another")
		}
	}
}

func (d *Draft) changesNothing() bool {
	return !given(d.Delay) && !given(d.At) && d.URL == nil && d.Headers == nil &&
		!given(d.Body) && d.BodyText == nil && d.BodyBase64 == nil && d.ContentType == nil &&
		d.Retry == nil && !given(d.TTL) && d.Labels == nil && d.Priority == nil
}
