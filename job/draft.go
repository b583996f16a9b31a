package job

import (
	"encoding/json"
	"time"
)

// Draft is a registration, or a change of a job, as the client wrote it: a
// nil field was absent or null. Its rules stand here and nowhere else.
type Draft struct {
	Topic       *string           `json:"topic"`
	ID          *string           `json:"id"`
	BizKey      *string           `json:"biz_key"`
	Destination *Destination      `json:"url"`
	Method      *string           `json:"method"`
	Delay       json.RawMessage   `json:"delay"` // a number of whole seconds, or a duration string
	At          json.RawMessage   `json:"at"`    // an RFC 3339 string, or Unix time as a number
	Body        json.RawMessage   `json:"body"`
	BodyText    *string           `json:"body_text"`
	BodyBase64  *string           `json:"body_base64"`
	ContentType *string           `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Retry       *DraftRetry       `json:"retry"`
	Timeout     json.RawMessage   `json:"timeout"`
	TTL         json.RawMessage   `json:"ttl"`
	Expect      *DraftExpect      `json:"expect"`
	OnConflict  *string           `json:"on_conflict"`
	Labels      map[string]string `json:"labels"`
	Priority    *int              `json:"priority"`

	// NoBizKey and NoExpect take these away in a change, where they were null.
	NoBizKey bool `json:"no_biz_key,omitempty"`
	NoExpect bool `json:"no_expect,omitempty"`

	// BodyChecked says that Body is known to be one JSON value in UTF-8.
	BodyChecked bool `json:"-"`
}

// DraftRetry is the retry policy of a Draft.
type DraftRetry struct {
	Steps []json.RawMessage `json:"steps"`
	Limit *int              `json:"limit"`
}

// DraftExpect is what a Draft expects of a successful answer.
type DraftExpect struct {
	Body *string `json:"body"`
}

// Limits are the settings by which drafts are judged.
type Limits struct {
	MaxBody    int           // bytes of the callback's body
	MaxTimeout time.Duration // of one attempt
}
