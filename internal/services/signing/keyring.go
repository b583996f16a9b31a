package signing

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Kind is the kind of the documents with secrets.
const Kind = "signing-secret"

// The documents have the names of topics, or that of the default. No topic can have the default's.
const defaultName = "*"

// MaxTopics bounds the topics with secrets of their own.
const MaxTopics = 10_000

var (
	// ErrNoSecret reports that there is no such secret.
	ErrNoSecret = errors.New("no signing secret")
	// ErrTooManyTopics reports that MaxTopics topics have secrets.
	ErrTooManyTopics = errors.New("too many topics have signing secrets")
)

// Options of Secrets. Documents and Seal have no default.
type Options struct {
	Documents store.Documents
	// Seal encrypts stored secrets. Without a master key, only a configured default signs.
	Seal *documents.Seal
	// Default is the default secret of the settings, in the form of ParseSecrets. Empty: it is stored.
	Default string

	Clock  job.Clock          // nil: the machine's
	Now    func() job.Instant // the store's time, by which overlaps end; nil: the clock's
	Logger *slog.Logger       // nil: none
}

// Secrets sign deliveries. They are safe for concurrent use.
type Secrets struct {
	ring       *documents.Keyring[stored, ring]
	seal       *documents.Seal
	now        func() job.Instant
	configured ring // the default of the settings, or nil
}

// stored is the content of the document of a topic, or of the default.
type stored struct {
	documents.Stamp
	Secrets ring `json:"secrets"`
}

// New makes Secrets. Load must be called before they can sign, and before that EnsureDefault unless
// the settings have a default.
func New(o Options) (*Secrets, error) {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	if o.Now == nil {
		o.Now = func() job.Instant { return job.InstantOf(o.Clock.Now()) }
	}
	s := &Secrets{seal: o.Seal, now: o.Now}
	if o.Default != "" {
		secrets, err := ParseSecrets(o.Default)
		if err != nil {
			return nil, err
		}
		for _, secret := range secrets { // they do not end
			s.configured = append(s.configured, newRingSecret(secret, 0, 0))
		}
	}
	s.ring = documents.NewKeyring(documents.KeyringOptions[stored, ring]{
		Options: documents.Options[stored]{
			Store: o.Documents, Kind: Kind, Seal: o.Seal, Clock: o.Clock,
			Max: MaxTopics + 1, Full: ErrTooManyTopics, Missing: ErrNoSecret, // the default is one of them
			Stamp: func(v *stored) *documents.Stamp { return &v.Stamp },
			Check: func(v *stored) error { return v.Secrets.check() },
		},
		What: "signing secrets", Logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		Of:      func(v *stored) ring { return v.Secrets },
		Lasting: func(name string) bool { return name == defaultName },
	})
	return s, nil
}

// documentName returns the name of a topic's document; "" is the default.
func documentName(topic string) string { return cmp.Or(topic, defaultName) }

// Load reads the secrets.
func (s *Secrets) Load(ctx context.Context) error { return s.ring.Load(ctx) }

// Run keeps the secrets up to date until ctx ends.
func (s *Secrets) Run(ctx context.Context) error { return s.ring.Run(ctx) }

// Sign returns the value of the header webhook-signature of one attempt: of the body sent
// for topic with the webhook-id id and the webhook-timestamp at. It does no I/O. The error wraps
// documents.ErrMasterKey or documents.ErrDamaged if the topic's secrets cannot be opened, ErrNoSecret
// before EnsureDefault, and store.ErrUnavailable before Load.
func (s *Secrets) Sign(_ context.Context, topic, id string, at time.Time, body []byte) (string, error) {
	r, err := s.signer(topic)
	if err != nil {
		return "", err
	}
	return r.sign(id, at, body)
}

// signer returns the ring that signs for a topic. Secrets that cannot be opened are an
// error: receivers of the topic do not know the default.
func (s *Secrets) signer(topic string) (ring, error) {
	if err := s.ring.Ready(); err != nil {
		return nil, err
	}
	known := s.ring.All()
	if own, ok := known[topic]; ok {
		return own.Last()
	}
	if s.configured != nil {
		return s.configured, nil
	}
	if def, ok := known[defaultName]; ok {
		return def.Last()
	}
	return nil, ErrNoSecret
}
