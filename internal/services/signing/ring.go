package signing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
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

func newRingSecret(s Secret, created, ends job.Instant) (ringSecret, error) {
	webhook, err := standardwebhooks.NewWebhookRaw([]byte(s.key))
	return ringSecret{secret: s, webhook: webhook, created: created, ends: ends}, err
}

// at returns the ring without the secrets that have ended at now.
func (r ring) at(now job.Instant) ring {
	return slices.DeleteFunc(slices.Clone(r), func(s ringSecret) bool { return s.ended(now) })
}

func (s ringSecret) ended(now job.Instant) bool { return s.ends != 0 && s.ends <= now }

// replaced returns the ring in which next has replaced the current secret at now. Earlier
// secrets continue to sign for the overlap at most.
func (r ring) replaced(next Secret, now job.Instant, overlap time.Duration) (ring, error) {
	first, err := newRingSecret(next, now, 0)
	if err != nil {
		return nil, err
	}
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

// keptSecret is the stored form of a ringSecret.
type keptSecret struct {
	Secret  string      `json:"secret"`
	Created job.Instant `json:"created"`
	Ends    job.Instant `json:"ends,omitempty"`
}

// kept returns the stored form of r.
func (r ring) kept() []keptSecret {
	secrets := make([]keptSecret, len(r))
	for i, s := range r {
		secrets[i] = keptSecret{Secret: s.secret.Reveal(), Created: s.created, Ends: s.ends}
	}
	return secrets
}

// kept is the content of the document of a topic, of the default, or of a pair.
type kept struct {
	documents.Stamp
	Secrets []keptSecret `json:"secrets"`
	Pair    KeyPair      `json:"pair,omitzero"`
}

// stored is such a document.
type stored = documents.Document[kept]

// errNoList replaces an error that could quote a secret.
var errNoList = fmt.Errorf("%w: no list of secrets", ErrDamaged)

// ringOf returns the ring of a document, which a pair does not have. Its error wraps ErrMasterKey or ErrDamaged.
func ringOf(d *stored) (ring, error) {
	switch {
	case errors.Is(d.Err, store.ErrNewer):
		return nil, errNoList
	case d.Err != nil:
		return nil, d.Err
	}
	var r ring
	for i, k := range d.Value.Secrets {
		secret, err := ParseSecret(k.Secret)
		if err != nil {
			return nil, fmt.Errorf("%w: a secret %w", ErrDamaged, err)
		}
		if (k.Ends == 0) != (i == 0) {
			return nil, fmt.Errorf("%w: only the first secret has no end", ErrDamaged)
		}
		s, err := newRingSecret(secret, k.Created, k.Ends)
		if err != nil {
			return nil, err
		}
		r = append(r, s)
	}
	if len(r) == 0 && d.Value.Pair == (KeyPair{}) {
		return nil, fmt.Errorf("%w: no secret", ErrDamaged)
	}
	return r, nil
}

// configuredRing returns the ring of the settings. Its secrets do not end.
func configuredRing(secrets []Secret) (ring, error) {
	var r ring
	for _, secret := range secrets {
		s, err := newRingSecret(secret, 0, 0)
		if err != nil {
			return nil, err
		}
		r = append(r, s)
	}
	return r, nil
}
