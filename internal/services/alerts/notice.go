package alerts

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// The statuses of an alert in webhooks.
const (
	firing   = "firing"
	resolved = "resolved"
)

// webhook returns the job that tells of an alert. Its ids follow from the alert, so registering it twice has no
// further effect.
func (r *Rule) webhook(a *Alert, status string) store.Registration {
	key := job.Key{Topic: Topic, ID: a.ID + "." + status}
	return store.Registration{
		Key: key, UID: store.BindUID(identifier(a.FiredAt, key.ID), key), OnConflict: job.ConflictIgnore,
		Spec: job.Spec{
			Destination: job.Destination(r.URL), BizKey: a.ID, Body: r.body(a, status), BodyForm: job.BodyJSON, ContentType: job.BodyJSON.ContentType(),
			Labels: []job.Label{{Key: "rule", Value: r.Name}, {Key: "status", Value: status}},
		},
	}
}

// object is a JSON object.
type object map[string]any

// body returns the body of a webhook, in the rule's format.
func (r *Rule) body(a *Alert, status string) []byte {
	line := r.text(a, status)
	content := object{"text": line}
	switch r.Format {
	case Slack:
	case Teams:
		card := object{"type": "AdaptiveCard", "version": "1.4", "body": []object{{"type": "TextBlock", "text": line, "wrap": true}}}
		content = object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}}
	default:
		content = object{
			"version": "1", // changes with incompatible changes
			"alert":   a.ID, "status": status, "rule": r.Name, "metric": a.Metric, "value": a.Value, "threshold": a.Above, "text": line,
			"topic": orNull(a.Topic), "endpoint": orNull(a.Endpoint), "node": orNull(a.Node), "trouble": orNull(a.Trouble),
			"fired_at": a.FiredAt.RFC3339(), "resolved_at": nil,
		}
		if status == resolved {
			content["resolved_at"] = a.ResolvedAt.RFC3339()
		}
	}
	data, _ := json.Marshal(content) // its numbers are finite
	return data
}

// text is one line for people.
func (r *Rule) text(a *Alert, status string) string {
	k := kinds[a.Metric]
	line := fmt.Sprintf("[%s] %s: %s", strings.ToUpper(status), r.Name, k.words)
	for _, of := range []struct{ what, name string }{{"topic", a.Topic}, {"endpoint", a.Endpoint}, {"node", a.Node}} {
		if of.name != "" {
			line += " of " + of.what + " " + of.name
		}
	}
	if a.Trouble != "" {
		line += ": " + a.Trouble
	}
	if k.above {
		line += ": " + number(a.Value) + ", above " + number(a.Above)
	}
	return line
}

// number writes a number without an exponent.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// identifier returns a ULID that derives from its arguments.
func identifier(at job.Instant, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n"))) // no name holds one
	var id ulid.ULID
	_ = id.SetTime(uint64(at)) // fails from the year 10889 on
	_ = id.SetEntropy(sum[:10])
	return id.String()
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
