package job

import (
	"encoding/json"
	"time"
)

// Draft is a registration, or a change of a job, as the client wrote it: a
// nil field was absent or null. Its rules stand here and nowhere else.
type Draft struct {
	Topic       *string
	ID          *string
	BizKey      *string
	Destination *Destination
	Method      *string
	Delay       json.RawMessage // a number of whole seconds, or a duration string
	At          json.RawMessage // an RFC 3339 string, or Unix time as a number
	Body        json.RawMessage
	BodyText    *string
	BodyBase64  *string
	ContentType *string
	Headers     map[string]string
	Retry       *DraftRetry
	Timeout     json.RawMessage
	TTL         json.RawMessage
	Expect      *DraftExpect
	OnConflict  *string
	Labels      map[string]string
	Priority    *int

	// NoBizKey and NoExpect take these away in a change, where they were null.
	NoBizKey bool
	NoExpect bool

	// BodyChecked says that Body is known to be one JSON value in UTF-8.
	BodyChecked bool
}

// DraftRetry is the retry policy of a Draft.
type DraftRetry struct {
	Steps []json.RawMessage
	Limit *int
}

// DraftExpect is what a Draft expects of a successful answer.
type DraftExpect struct {
	Body *string
}

// Limits are the settings by which drafts are judged.
type Limits struct {
	MaxBody    int           // bytes of the callback's body
	MaxTimeout time.Duration // of one attempt
}
