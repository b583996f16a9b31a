package receiver

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Defaults of Options.
const (
	DefaultTolerance = 5 * time.Minute
	DefaultMaxBody   = 1 << 20
)

// Bounds of a secret's length in bytes.
const (
	minSecretBytes = 24
	maxSecretBytes = 64
	secretPrefix   = "whsec_"
)

// Options of a Receiver. Only Secrets has no default.
type Options struct {
	// Secrets are the signing secrets, each "whsec_" and base64. A delivery
	// signed with any of them is accepted, so that the secret can be rotated.
	Secrets []string
	// Topics are the accepted topics. Topics without a secret of their own share the default, so whoever may
	// register jobs of one of them can send signed deliveries here. Empty: the topic is not checked.
	Topics []string
	// Tolerance is the largest difference between webhook-timestamp and our clock.
	// It prevents replay attacks. Zero: DefaultTolerance.
	Tolerance time.Duration
	// MaxBody is the largest accepted body, in bytes. Zero: DefaultMaxBody.
	MaxBody int64
	// Seen remembers handled deliveries. Nil: a Memory with its defaults, for one
	// process until it ends.
	Seen Seen
	// Reply is the body of the answer to a handled delivery, for jobs registered
	// with "expect".
	Reply string
	// Logger reports refused and failed deliveries, without bodies. Nil: none.
	Logger *slog.Logger
	// Now is the clock. Nil: the machine's.
	Now func() time.Time
}

// Receiver verifies and handles deliveries. It is safe for concurrent use. New makes it; the zero value refuses
// all deliveries.
type Receiver struct {
	webhooks  []*standardwebhooks.Webhook
	topics    []string
	tolerance time.Duration
	maxBody   int64
	seen      Seen
	reply     string
	log       *slog.Logger
	now       func() time.Time
}

// New makes a Receiver. Its errors do not contain the secrets.
func New(o Options) (*Receiver, error) {
	if len(o.Secrets) == 0 {
		return nil, errors.New("receiver: no secret")
	}
	if o.Tolerance < 0 || o.MaxBody < 0 {
		return nil, errors.New("receiver: tolerance and body limit cannot be negative")
	}
	r := &Receiver{
		topics: slices.Clone(o.Topics), tolerance: o.Tolerance, maxBody: o.MaxBody, seen: o.Seen, reply: o.Reply, log: o.Logger, now: o.Now,
	}
	for i, secret := range o.Secrets {
		webhook, err := newWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("receiver: secret %d %w", i+1, err)
		}
		r.webhooks = append(r.webhooks, webhook)
	}
	if r.tolerance == 0 {
		r.tolerance = DefaultTolerance
	}
	if r.maxBody == 0 {
		r.maxBody = DefaultMaxBody
	}
	r.maxBody = min(r.maxBody, math.MaxInt64-1) // one more byte is read, to detect a larger body
	if r.now == nil {
		r.now = systemTime
	}
	if r.seen == nil {
		r.seen = NewMemory(MemoryOptions{Now: r.now})
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// newWebhook is stricter than the library, which accepts an empty secret: anybody
// could sign with it.
func newWebhook(secret string) (*standardwebhooks.Webhook, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(secret), secretPrefix) // files end with a line break
	if !ok {
		return nil, errors.New("must begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("must be " + secretPrefix + " and standard base64 with padding")
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return nil, fmt.Errorf("must have %d to %d bytes, not %d", minSecretBytes, maxSecretBytes, len(key))
	}
	return standardwebhooks.NewWebhookRaw(key)
}

func systemTime() time.Time {
	return time.Now() //nolint:forbidigo // receivers are no part of duehook's process, and have no job.Clock
}
