package job

import "time"

// Draft is a registration or a change of a job as a client asks for it. A nil field
// was not given. Fronts decode it; Registration, Patch and Defaults validate it.
type Draft struct {
	Topic       *string
	ID          *string
	BizKey      *string
	OrderKey    *string
	Destination *Destination
	Group       *string // instead of Destination: a job for each of its members
	FilterLabel *string // only for members with this label
	Method      *string
	Delay       *time.Duration // or At
	At          *Instant
	Spread      *time.Duration
	Body        *Body
	ContentType *string
	Headers     map[string]string
	Retry       *Retry // an empty one asks for the server's policy
	Timeout     *time.Duration
	TTL         *time.Duration
	Expect      *string // the body of a successful answer
	OnConflict  *string
	Labels      map[string]string
	Priority    *int
	Count       *CountDraft
	Callbacks   *CallbacksDraft

	// NoBizKey and NoExpect remove these fields in a change.
	NoBizKey bool
	NoExpect bool
}

// Body is the body of a callback in the form in which the client gave it. The content of
// the form BodyJSON is one JSON value in UTF-8; the front checks it.
type Body struct {
	Form    BodyForm
	Content []byte
}

// Limits are the settings that limit drafts.
type Limits struct {
	MaxBody    int           // bytes of the callback's body
	MaxTimeout time.Duration // of one attempt
	MaxRounds  int           // how often a receiver may arm a job again
}
