package signing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

// Freshness is the time after which all nodes that can read the store use a change of
// secrets: a read that just missed it, a pause, and the next read.
const Freshness = refreshPause + 2*readTimeout

const (
	refreshPause = 3 * time.Second
	readTimeout  = time.Second
)

// The documents have the names of topics, that of the default, or those of pairs. No topic can have
// the default's.
const (
	documentKind = "signing-secret"
	defaultName  = "*"
)

// MaxTopics bounds the topics with secrets of their own.
const MaxTopics = 10_000

var (
	// ErrNoSecret reports that there is no such secret.
	ErrNoSecret = errors.New("no signing secret")
	// ErrTooManyTopics reports that MaxTopics topics have secrets.
	ErrTooManyTopics = errors.New("too many topics have signing secrets")
)

// Options of a Keyring. Only Documents has no default.
type Options struct {
	Documents store.Documents
	// MasterKeys decrypt stored secrets; the first one also encrypts. To change the
	// key, add the new one behind the old on all nodes, then move it to the front,
	// call Reseal, and remove the old one. Without keys, secrets cannot be stored;
	// only a configured default signs.
	MasterKeys []MasterKey
	// MissingMasterKey returns the master key if MasterKeys is empty. Without secrets in the
	// store, it may make one; otherwise, the error is ErrMasterKey if there is none. Nil: there
	// is no key.
	MissingMasterKey func(mayMake bool) (MasterKey, error)
	// Default is the default secret of the settings, in the form of ParseSecrets. Empty: it is stored.
	Default string
	// HandOut gets the text form of the default before the store gets it. Nothing is stored after its
	// error. Nil: nobody gets it.
	HandOut func(secret string) error

	Clock  job.Clock          // nil: the machine's
	Now    func() job.Instant // the store's time, by which overlaps end; nil: the clock's
	Logger *slog.Logger       // nil: none
}

// Keyring signs deliveries and manages the secrets. It is safe for concurrent use.
type Keyring struct {
	keys  atomic.Pointer[sealer]
	clock job.Clock
	now   func() job.Instant
	log   *slog.Logger
	docs  *documents.Collection[kept]
	known *documents.Mirror[kept, knownRing]

	missingKey func(mayMake bool) (MasterKey, error)
	handOut    func(secret string) error
	configured ring // the default of the settings, or nil
}

// knownRing is one document, opened.
type knownRing struct {
	data []byte  // as read
	ring ring    // of the last readable content
	pair KeyPair // the same
	err  error   // why there is none
}

var errUnread = fmt.Errorf("%w: the signing secrets have not been read yet", store.ErrUnavailable)

// New makes a Keyring. Load must be called before it can sign, and before that EnsureDefault unless
// the settings have a default.
func New(o Options) (*Keyring, error) {
	if o.Documents == nil {
		return nil, errors.New("signing: no documents")
	}
	for _, key := range o.MasterKeys {
		if key.aead == nil {
			return nil, errors.New("signing: a master key is empty")
		}
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = func() job.Instant { return job.InstantOf(o.Clock.Now()) }
	}
	if o.HandOut == nil {
		o.HandOut = func(string) error { return nil }
	}
	k := &Keyring{clock: o.Clock, now: o.Now, log: o.Logger, missingKey: o.MissingMasterKey, handOut: o.HandOut}
	if o.Default != "" {
		secrets, err := ParseSecrets(o.Default)
		if err != nil {
			return nil, err
		}
		if k.configured, err = configuredRing(secrets); err != nil {
			return nil, err
		}
	}
	keys := sealer(o.MasterKeys)
	k.keys.Store(&keys)
	k.docs = documents.New(documents.Options[kept]{
		Store: o.Documents, Kind: documentKind,
		Seal: func(name string, plain []byte) ([]byte, error) { return k.keys.Load().seal(name, plain) },
		Open: func(name string, data []byte) ([]byte, error) { return k.keys.Load().open(name, data) },
		Max:  MaxTopics + 1, Full: ErrTooManyTopics, Missing: ErrNoSecret, Clock: o.Clock, // the default is one of them
		Stamp: func(v *kept) *documents.Stamp { return &v.Stamp },
	})
	k.known = documents.NewMirror(k.docs, k.know)
	k.known.Mend = k.putBack
	return k, nil
}

// documentName returns the name of a topic's document; "" is the default.
func documentName(topic string) string { return cmp.Or(topic, defaultName) }

// Load reads the secrets.
func (k *Keyring) Load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return k.known.Refresh(ctx)
}

// Run reads the secrets at intervals until ctx ends. During an outage of the store, the known
// ones stay in use.
func (k *Keyring) Run(ctx context.Context) error {
	return k.known.Run(ctx, documents.Following{
		What: "reading signing secrets; known ones stay in use", Every: refreshPause, Limit: readTimeout, Clock: k.clock, Logger: k.log,
	})
}

// Sign returns the value of the header webhook-signature of one attempt: of the body sent
// for topic with the webhook-id id and the webhook-timestamp at. It does no I/O. The error wraps
// ErrMasterKey or ErrDamaged if the topic's secrets cannot be opened, ErrNoSecret
// before EnsureDefault, and store.ErrUnavailable before Load.
func (k *Keyring) Sign(_ context.Context, topic, id string, at time.Time, body []byte) (string, error) {
	r, err := k.signer(topic)
	if err != nil {
		return "", err
	}
	return r.sign(id, at, body)
}

// signer returns the ring that signs for a topic. Secrets that cannot be opened are an
// error: receivers of the topic do not know the default.
func (k *Keyring) signer(topic string) (ring, error) {
	if !k.known.Complete() {
		return nil, errUnread
	}
	known := k.known.All()
	if own, ok := known[topic]; ok && topic != "" {
		return own.ring, own.err
	}
	if k.configured != nil {
		return k.configured, nil
	}
	if def, ok := known[defaultName]; ok {
		return def.ring, def.err
	}
	return nil, ErrNoSecret
}

// putBack restores lost documents. Nobody deletes the default or a pair: a store without one lost all
// documents.
func (k *Keyring) putBack(ctx context.Context, before, now map[string]knownRing) error {
	missing, lost := map[string]knownRing{}, false
	for name, known := range before {
		if _, there := now[name]; !there {
			missing[name], lost = known, lost || name == defaultName || isPair(name)
		}
	}
	if !lost {
		return nil
	}
	for name, known := range missing {
		// A conflict: another node was faster, and the next read finds its document.
		if err := k.docs.Restore(ctx, name, known.data); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		now[name] = known
	}
	k.log.WarnContext(ctx, "the store lost signing secrets; this node restored the known ones")
	return nil
}

// know opens a document. If that fails, the content known before stays in use.
func (k *Keyring) know(d *documents.Document[kept], old knownRing) knownRing {
	r, err := ringOf(d)
	if err == nil {
		return knownRing{data: d.Data, ring: r, pair: d.Value.Pair}
	}
	k.log.Error("signing secrets of a topic cannot be decrypted", "topic", d.Name, "error", err)
	if old.data == nil || old.err != nil {
		old.err = err
	}
	old.data = d.Data
	return old
}
