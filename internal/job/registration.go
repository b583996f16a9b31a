package job

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// OnConflict is the effect of a registration whose key is taken.
type OnConflict string

// The conflict policies, as the API writes them.
const (
	ConflictReject  OnConflict = "reject"  // refuse; the default, also if empty
	ConflictIgnore  OnConflict = "ignore"  // keep and return the unfinished job
	ConflictReplace OnConflict = "replace" // replace it, unless it is in flight
	ConflictLater   OnConflict = "later"   // keep the unfinished job, and move its due time later
	ConflictSooner  OnConflict = "sooner"  // or sooner
	// ConflictRenew refuses while the job is unfinished, and replaces any ended one.
	ConflictRenew OnConflict = "renew"
	// ConflictOnce keeps and returns the job, also an ended one, whatever its content.
	ConflictOnce OnConflict = "once"
	// ConflictKey belongs to an Idempotency-Key: the job of equal content stays, whatever became of
	// it, and other content is refused.
	ConflictKey OnConflict = "key"
)

// OnConflicts are the policies that clients may choose.
var OnConflicts = []OnConflict{ConflictReject, ConflictIgnore, ConflictReplace, ConflictLater, ConflictSooner, ConflictRenew, ConflictOnce}

// Request is a valid registration.
type Request struct {
	// Key.ID is empty if the draft has none: the caller chooses one.
	Key        Key
	UID        string // empty: the caller makes one
	Spec       Spec
	OnConflict OnConflict
}

// Registration validates the draft as the registration of a job. now only limits
// "at". The error is a *ValidationError with every wrong field, or wraps
// ErrBodyTooLarge. The Spec shares memory
// with the draft.
func (d *Draft) Registration(l Bounds, now Instant) (Request, error) {
	var f Findings
	r := f.request(d, l, now)
	switch {
	case r.Spec.Destination.Pulled():
		f.pushFields(d)
		return f.valid(r)
	case d.Group != nil:
		f.Add("group", "is not possible here: a single job needs a url")
	case d.Destination == nil:
		f.Add("url", `is required, unless the job has "pull": true or its topic has a url`)
	case f.Check("url", d.Destination.Check()):
		r.Spec.Destination = *d.Destination
	}
	if d.FilterLabel != nil && d.Group == nil {
		f.Add("filter_label", "selects members of a group: leave it out")
	}
	return f.valid(r)
}

// ForGroup validates the draft as the registration of a job for each member of a group.
// The Spec lacks what members have: the destination, and their headers. Errors are those
// of Registration.
func (d *Draft) ForGroup(l Bounds, now Instant) (Request, error) {
	var f Findings
	r := f.request(d, l, now)
	if r.Spec.Destination.Pulled() {
		f.Add("pull", "must not be combined with group, whose members have urls")
	}
	if d.UID != nil {
		f.Add("uid", "must not be combined with group, whose members have jobs of their own")
	}
	r.Spec.Group = &Membership{Group: f.name("group", d.Group, ""), Headers: len(r.Spec.Headers)}
	if d.FilterLabel != nil {
		f.Check("filter_label", CheckFilterLabel(*d.FilterLabel))
		r.Spec.Group.FilterLabel = *d.FilterLabel
	}
	if d.Destination != nil {
		f.Add("url", "must not be combined with group, whose members have urls")
	}
	return f.valid(r)
}

func (f *Findings) valid(r Request) (Request, error) {
	if err := f.Err(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// request is what registrations of both kinds have.
func (f *Findings) request(d *Draft, l Bounds, now Instant) Request {
	r := Request{
		Key:        Key{Topic: f.name("topic", d.Topic, DefaultTopic), ID: f.name("id", d.ID, "")},
		UID:        f.name("uid", d.UID, ""),
		OnConflict: f.onConflict(d.OnConflict),
	}
	if d.Pull != nil && *d.Pull {
		r.Spec.Destination = PullQueue
	}
	if w := f.when(d, now); w != nil {
		r.Spec.When = *w
	} else if d.Count != nil {
		r.Spec.When.Delay = MaxDelay
	}
	f.content(d, &r.Spec, l)
	return r
}

// content sets what a draft gives of the fields that registrations and changes have in
// common.
func (f *Findings) content(d *Draft, s *Spec, l Bounds) {
	if d.Dialect != nil {
		s.Dialect = f.dialect(d.Dialect)
	}
	for i := range fields {
		if set := fields[i].set; set != nil {
			set(f, d, s, l)
		}
	}
	f.body(d, s, l)
}

func (f *Findings) onConflict(s *string) OnConflict {
	if s == nil {
		return ConflictReject
	}
	if !slices.Contains(OnConflicts, OnConflict(*s)) {
		f.Add("on_conflict", `must be "reject", "ignore", "replace", "later", "sooner", "renew" or "once"`)
	}
	return OnConflict(*s)
}

// Methods are the methods of requests, the default first.
var Methods = []string{"POST", "PUT", "PATCH", "GET", "DELETE"}

// method is empty for POST, as in Spec.
func (f *Findings) method(s *string) string {
	switch {
	case s == nil || *s == Methods[0]:
		return ""
	case !slices.Contains(Methods, *s):
		f.Add("method", "must be one of "+strings.Join(Methods, ", "))
	}
	return *s
}

// when is the due time of the draft, or nil if it has none. A past instant is kept
// unchanged: a repetition of the registration must have equal content.
func (f *Findings) when(d *Draft, now Instant) *When {
	delay := f.Duration("delay", d.Delay, 0, 0, MaxDelay)
	switch {
	case d.At == nil && d.Delay == nil:
		return nil
	case d.At == nil:
		return &When{Delay: delay}
	case d.Delay != nil:
		f.Add("at", "must not be combined with delay")
	case *d.At > now.Add(MaxDelay):
		f.Add("at", fmt.Sprintf("must be at most %s ahead", FormatDuration(MaxDelay)))
	}
	return &When{At: *d.At}
}

// retry is nil if the server's policy applies.
func (f *Findings) retry(r *Retry) *Retry { return f.retryFrom(time.Millisecond, r) }

// retryOf is the retry of a job. No receiver is called too often for one that consumers fetch.
func (f *Findings) retryOf(r *Retry, s *Spec, _ Bounds) *Retry {
	if s.Destination.Pulled() {
		return f.retryFrom(0, r)
	}
	return f.retry(r)
}

// retryFrom is retry with steps of at least a duration.
func (f *Findings) retryFrom(least time.Duration, r *Retry) *Retry {
	if r == nil || r.Steps == nil && r.Limit == nil {
		return nil
	}
	if r.Steps != nil {
		f.Check("retry.steps", checkStepCount(len(r.Steps)))
	}
	for i, step := range r.Steps[:min(len(r.Steps), MaxRetrySteps)] {
		if err := checkStep(least, step); err != nil {
			f.Add(Field("retry.steps").In(strconv.Itoa(i)), err.Error())
		}
	}
	if r.Limit != nil && (*r.Limit < 0 || *r.Limit > MaxRetryLimit) {
		f.Add("retry.limit", fmt.Sprintf("must be from 0 to %d", MaxRetryLimit))
	}
	return r
}

func checkStepCount(n int) error {
	if n < 1 || n > MaxRetrySteps {
		return fmt.Errorf("must have 1 to %d steps", MaxRetrySteps)
	}
	return nil
}

func checkStep(least, d time.Duration) error {
	if d < least || d > MaxRetryStep {
		return fmt.Errorf("must be from %s to %s", FormatDuration(least), FormatDuration(MaxRetryStep))
	}
	return nil
}

// expectBody is kept trimmed, as answers are before they are compared with it.
func (f *Findings) expectBody(s string) string {
	body := strings.TrimSpace(s)
	var err error
	switch {
	case !utf8.ValidString(body):
		err = errors.New("must be valid UTF-8")
	case body == "":
		err = errors.New("must contain more than white space")
	case len(body) > MaxExpectBody:
		err = fmt.Errorf("must have at most %d bytes", MaxExpectBody)
	}
	f.Check("expect.body", err)
	return body
}
