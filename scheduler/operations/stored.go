package operations

import (
	"encoding/json"

	"github.com/duehook/duehook/job"
)

// storedDraft is a job.Draft as documents keep it. It has the fields of a
// job.Draft, so that one converts to the other.
type storedDraft struct {
	Topic       *string           `json:"topic"`
	ID          *string           `json:"id"`
	BizKey      *string           `json:"biz_key"`
	Destination *job.Destination  `json:"url"`
	Method      *string           `json:"method"`
	Delay       json.RawMessage   `json:"delay"`
	At          json.RawMessage   `json:"at"`
	Body        json.RawMessage   `json:"body"`
	BodyText    *string           `json:"body_text"`
	BodyBase64  *string           `json:"body_base64"`
	ContentType *string           `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Retry       *job.DraftRetry   `json:"retry"`
	Timeout     json.RawMessage   `json:"timeout"`
	TTL         json.RawMessage   `json:"ttl"`
	Expect      *job.DraftExpect  `json:"expect"`
	OnConflict  *string           `json:"on_conflict"`
	Labels      map[string]string `json:"labels"`
	Priority    *int              `json:"priority"`

	NoBizKey bool `json:"no_biz_key,omitempty"`
	NoExpect bool `json:"no_expect,omitempty"`

	BodyChecked bool `json:"-"`
}

// Changes names the fields that the operation sets.
func (d *storedDraft) Changes() []string { return (*job.Draft)(d).Changes() }
