package alerts

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Status is the status of an alert in a webhook.
type Status string

// The statuses.
const (
	Firing   Status = "firing"
	Resolved Status = "resolved"
)

// Notice is a webhook to register. It is fixed when the alert fires or is resolved, so that
// registering it twice has no further effect.
type Notice struct {
	ID     string          `json:"id"` // of the job
	UID    string          `json:"uid"`
	URL    string          `json:"url"`
	Rule   string          `json:"rule"`
	Alert  string          `json:"alert"`
	Status Status          `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// payload is the body of a webhook.
type payload struct {
	Version    string        `json:"version"`
	Alert      string        `json:"alert"`
	Status     Status        `json:"status"`
	Rule       string        `json:"rule"`
	Metric     Metric        `json:"metric"`
	Subject    subjectInBody `json:"subject"`
	Value      float64       `json:"value"`
	Threshold  float64       `json:"threshold"`
	Since      string        `json:"since"`
	FiredAt    string        `json:"fired_at"`
	ResolvedAt *string       `json:"resolved_at"`
	Repeat     int           `json:"repeat"`
	Text       string        `json:"text"`
}

type subjectInBody struct {
	Topic    *string `json:"topic"`
	Endpoint *string `json:"endpoint"`
}

// payloadVersion changes with incompatible changes of the payload.
const payloadVersion = "1"

// tell adds a webhook if the rule has a URL.
func (b *book) tell(s *Alert, status Status, now job.Instant) {
	if s.URL == "" {
		return
	}
	s.ToldAt = now
	p := payload{
		Version: payloadVersion, Alert: s.ID, Status: status, Rule: s.Rule, Metric: s.Metric,
		Subject: subjectInBody{orNull(s.Topic), orNull(s.Endpoint)}, Value: s.Value, Threshold: s.Above,
		Since: s.Since.RFC3339(), FiredAt: s.FiredAt.RFC3339(), Repeat: s.Repeats,
	}
	id := s.ID + "." + string(status)
	switch {
	case status == Resolved:
		at := now.RFC3339()
		p.ResolvedAt = &at
	case s.Repeats > 0:
		id += "." + strconv.Itoa(s.Repeats)
	}
	p.Text = p.text()
	body, err := json.Marshal(p)
	if err != nil { // a value that is no number, which none is
		return
	}
	b.Notices = append(b.Notices, Notice{
		ID: id, UID: identifier(now, id), URL: s.URL, Rule: s.Rule, Alert: s.ID, Status: status, Body: body,
	})
	if more := len(b.Notices) - maxNotices; more > 0 {
		b.Notices = b.Notices[more:]
	}
}

// maxNotices bounds the webhooks to register. The latest are kept.
const maxNotices = 500

// text is one line for people.
func (p *payload) text() string {
	var of []string
	if p.Subject.Topic != nil {
		of = append(of, "topic "+*p.Subject.Topic)
	}
	if p.Subject.Endpoint != nil {
		of = append(of, "endpoint "+*p.Subject.Endpoint)
	}
	text := fmt.Sprintf("[%s] %s: %s", strings.ToUpper(string(p.Status)), p.Rule, p.Metric)
	if len(of) > 0 {
		text += " of " + strings.Join(of, ", ")
	}
	return text + fmt.Sprintf(" is %s, threshold %s", number(p.Value), number(p.Threshold))
}

// number writes a value with three decimals at most.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// identifier returns a ULID that derives from its arguments.
func identifier(at job.Instant, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n"))) // no name holds one
	var id ulid.ULID
	_ = id.SetTime(uint64(at)) // fails from the year 10889 on
	_ = id.SetEntropy(sum[:10])
	return id.String()
}

// registration returns the job of the webhook.
func (n *Notice) registration() store.Registration {
	key := job.Key{Topic: Topic, ID: n.ID}
	return store.Registration{
		Key: key, UID: store.BindUID(n.UID, key), OnConflict: job.ConflictIgnore,
		Spec: job.Spec{
			Destination: job.Destination(n.URL), BizKey: n.Alert, Body: n.Body, BodyForm: job.BodyJSON, ContentType: job.BodyJSON.ContentType(),
			Labels: []job.Label{{Key: "rule", Value: n.Rule}, {Key: "status", Value: string(n.Status)}},
		},
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
