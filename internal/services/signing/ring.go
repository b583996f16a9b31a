package signing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/job"
)

// MaxSecrets is how many secrets can sign at the same time: the current one, and earlier
// ones whose overlap lasts. Each of them adds a signature to deliveries.
const MaxSecrets = 5

// ErrTooManySecrets reports that after another overlap more than MaxSecrets would sign.
var ErrTooManySecrets = errors.New("too many signing secrets overlap")

// ring is the secrets that sign the same deliveries, newest first. It is immutable.
type ring []ringSecret

type ringSecret struct {
	secret  Secret
	webhook *standardwebhooks.Webhook
	created job.Instant // zero: of the settings
	ends    job.Instant // zero: never
}

func newRingSecret(s Secret, created, ends job.Instant) ringSecret {
	webhook, _ := standardwebhooks.NewWebhookRaw([]byte(s.key)) // its error is always nil
	return ringSecret{secret: s, webhook: webhook, created: created, ends: ends}
}

// at returns the ring without the secrets that have ended at now.
func (r ring) at(now job.Instant) ring {
	return slices.DeleteFunc(slices.Clone(r), func(s ringSecret) bool { return s.ended(now) })
}

func (s ringSecret) ended(now job.Instant) bool { return s.ends != 0 && s.ends <= now }

// replaced returns the ring in which next has replaced the current secret at now. Earlier
// secrets continue to sign for the overlap at most.
func (r ring) replaced(next Secret, now job.Instant, overlap time.Duration) (ring, error) {
	first := newRingSecret(next, now, 0)
	if len(r) > 0 && r[0].secret == next {
		first.created = r[0].created // only overlaps change
	}
	after := ring{first}
	for _, old := range r {
		if old.secret == next {
			continue
		}
		if end := now.Add(overlap); old.ends == 0 || old.ends > end {
			old.ends = end
		}
		after = append(after, old)
	}
	after = after.at(now)
	if len(after) > MaxSecrets {
		return nil, fmt.Errorf("%w: at most %d can sign at a time", ErrTooManySecrets, MaxSecrets)
	}
	return after, nil
}

// same reports whether the rings hold the same secrets, with the same ends.
func (r ring) same(o ring) bool {
	return slices.EqualFunc(r, o, func(a, b ringSecret) bool { return a.secret == b.secret && a.ends == b.ends })
}

// sign returns the value of webhook-signature for an attempt at the time at.
func (r ring) sign(id string, at time.Time, body []byte) (string, error) {
	signatures := make([]string, 0, len(r))
	for _, s := range r {
		if s.ended(job.InstantOf(at)) {
			continue
		}
		signature, err := s.webhook.Sign(id, at, body)
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		signatures = append(signatures, signature)
	}
	return strings.Join(signatures, " "), nil
}

// check returns an error if a stored ring is none: its current secret always signs.
func (r ring) check() error {
	if len(r) == 0 {
		return errors.New("no secret")
	}
	for i, s := range r {
		if (s.ends == 0) != (i == 0) {
			return errors.New("only the first secret has no end")
		}
	}
	return nil
}

// storedSecret is the stored form of a ringSecret.
type storedSecret struct {
	Secret  string      `json:"secret"`
	Created job.Instant `json:"created"`
	Ends    job.Instant `json:"ends,omitempty"`
}

// MarshalJSON returns the form that is sealed.
func (s ringSecret) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedSecret{s.secret.Reveal(), s.created, s.ends})
}

// UnmarshalJSON reads the form of MarshalJSON.
func (s *ringSecret) UnmarshalJSON(data []byte) error {
	var is storedSecret
	if err := json.Unmarshal(data, &is); err != nil {
		return err
	}
	secret, err := ParseSecret(is.Secret)
	*s = newRingSecret(secret, is.Created, is.Ends)
	return err
}
