package signing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Freshness is the time after which all nodes that can read the store use a change of
// secrets: staleAfter and a read.
const Freshness = staleAfter + readTimeout

const (
	// refreshAfter is the age at which one caller of Sign reads the documents again.
	// The others use the known secrets meanwhile.
	refreshAfter = 3 * time.Second
	// staleAfter is the age at which all callers wait for that read: nothing was
	// signed for a while.
	staleAfter = 6 * time.Second
	// readTimeout bounds the delay of deliveries by a store that hangs.
	readTimeout = time.Second
)

// The documents have the names of topics. No topic can have the default's.
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
	// Candidate is the text form of a secret that an earlier start wanted to store as the
	// default; empty: none.
	Candidate string
	// NewCandidate returns the default to store. It is called if there is neither a stored
	// one nor a Candidate; the secret must be safe when it returns. Nil: a random one.
	NewCandidate func() (string, error)

	Clock  job.Clock    // nil: the machine's
	Logger *slog.Logger // nil: none
}

// Keyring signs deliveries and manages the secrets. It is safe for concurrent use and
// has no goroutines.
type Keyring struct {
	keys  atomic.Pointer[sealer]
	clock job.Clock
	log   *slog.Logger
	docs  *documents.Collection[kept]
	pairs []*Pair // of dialects; made before the first call

	missingKey   func(mayMake bool) (MasterKey, error)
	newCandidate func() (string, error)
	// candidate is the default that this node creates if there is none; zero: not made yet.
	// storeCalls guards it.
	candidate Secret
	// configured is the default of the settings, or nil.
	configured atomic.Pointer[ring]
	known      atomic.Pointer[snapshot]
	// storeCalls admits one call of the store at a time, so that an older answer never replaces
	// a newer one.
	storeCalls *semaphore.Weighted
	reads      *outage.Outage
}

// snapshot is the known documents. It is immutable.
type snapshot struct {
	rings   map[string]knownRing // by the names of documents
	checked time.Time            // of the last read, successful or not
	err     error                // why there was no successful read yet
}

// knownRing is one document, opened.
type knownRing struct {
	data []byte // as read
	ring ring   // of the last readable content
	err  error  // why there is none
}

var errUnread = errors.New("signing secrets have not been read yet")

// New makes a Keyring. EnsureDefault must be called before it can sign.
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
	if o.NewCandidate == nil {
		o.NewCandidate = func() (string, error) { return NewSecret().Reveal(), nil }
	}
	k := &Keyring{
		clock: o.Clock, log: o.Logger, storeCalls: semaphore.NewWeighted(1),
		reads:      outage.New("reading signing secrets; known ones stay in use", o.Clock, o.Logger, nil),
		missingKey: o.MissingMasterKey, newCandidate: o.NewCandidate,
	}
	if o.Candidate != "" {
		var err error
		if k.candidate, err = ParseSecret(o.Candidate); err != nil {
			return nil, fmt.Errorf("signing: the candidate %w", err)
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
	k.known.Store(&snapshot{err: errUnread})
	return k, nil
}

// documentName returns the name of a topic's document; "" is the default.
func documentName(topic string) string { return cmp.Or(topic, defaultName) }

// Sign returns the value of the header webhook-signature of one attempt: of the body sent
// for topic with the webhook-id id and the webhook-timestamp at. It reads the store every
// few seconds; during an outage, the known secrets stay in use. The error wraps
// ErrMasterKey or ErrDamaged if the topic's secrets cannot be opened, and ErrNoSecret
// before EnsureDefault.
func (k *Keyring) Sign(ctx context.Context, topic, id string, at time.Time, body []byte) (string, error) {
	known, err := k.fresh(ctx)
	if err != nil {
		return "", err
	}
	r, err := k.signer(known, topic)
	if err != nil {
		return "", err
	}
	return r.sign(id, at, body)
}

// Load reads the secrets. After a success, Sign also works during an outage of the store.
func (k *Keyring) Load(ctx context.Context) error {
	if err := k.storeCalls.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.storeCalls.Release(1)
	_, err := k.refresh(ctx, k.known.Load())
	return err
}

// signer returns the ring that signs for a topic. Secrets that cannot be opened are an
// error: receivers of the topic do not know the default.
func (k *Keyring) signer(known *snapshot, topic string) (ring, error) {
	if own, ok := known.rings[topic]; ok && topic != "" {
		return own.ring, own.err
	}
	if configured := k.configured.Load(); configured != nil {
		return *configured, nil
	}
	if def, ok := known.rings[defaultName]; ok {
		return def.ring, def.err
	}
	return nil, ErrNoSecret
}

// fresh returns the known documents, and reads them again if they are old.
func (k *Keyring) fresh(ctx context.Context) (*snapshot, error) {
	known := k.known.Load()
	switch age := k.age(known); {
	case age < refreshAfter:
		return known, known.err
	case age < staleAfter:
		if !k.storeCalls.TryAcquire(1) {
			return known, known.err
		}
	default:
		if err := k.storeCalls.Acquire(ctx, 1); err != nil {
			return known, unread(known, err)
		}
	}
	defer k.storeCalls.Release(1)
	known = k.known.Load()
	if k.age(known) < refreshAfter { // another caller read them
		return known, known.err
	}
	return k.refresh(ctx, known)
}

func (k *Keyring) age(known *snapshot) time.Duration { return k.clock.Now().Sub(known.checked) }

// unread returns cause if no read has succeeded yet.
func unread(known *snapshot, cause error) error {
	if known.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnread, cause)
}

// refresh reads the documents. A failure counts as a read, so that a failing store gets
// few calls, except after the end of ctx. The caller holds storeCalls.
func (k *Keyring) refresh(ctx context.Context, old *snapshot) (*snapshot, error) {
	checked := k.clock.Now()
	timed, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rings, err := k.read(timed, old.rings)
	if err != nil && ctx.Err() != nil {
		return old, unread(old, ctx.Err())
	}
	next := &snapshot{rings: rings, checked: checked}
	if err != nil {
		k.reads.Note(ctx, err)
		next.rings, next.err = old.rings, unread(old, err)
	} else {
		k.reads.Worked()
	}
	k.known.Store(next)
	return next, next.err
}

// read reads all documents, and opens the ones that changed since old.
func (k *Keyring) read(ctx context.Context, old map[string]knownRing) (map[string]knownRing, error) {
	docs, err := k.docs.List(ctx)
	if err != nil {
		return nil, err
	}
	rings := make(map[string]knownRing, len(docs))
	for _, d := range docs {
		rings[d.Name] = k.know(ctx, d, old[d.Name])
	}
	_, had := old[defaultName]
	if _, has := rings[defaultName]; had && !has {
		return k.putBack(ctx, old, rings)
	}
	return rings, nil
}

// putBack restores lost documents and adds them to rings. Nobody deletes the default: a
// store without it lost all documents.
func (k *Keyring) putBack(ctx context.Context, old, rings map[string]knownRing) (map[string]knownRing, error) {
	for name, known := range old {
		if _, there := rings[name]; there {
			continue
		}
		// A conflict: another node was faster, and the next read finds its document.
		if err := k.docs.Restore(ctx, name, known.data); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		rings[name] = known
	}
	k.log.WarnContext(ctx, "the store lost signing secrets; this node restored the known ones")
	return rings, nil
}

// know opens a document unless old has the same content. If that fails, the ring known
// before stays in use.
func (k *Keyring) know(ctx context.Context, d store.Document, old knownRing) knownRing {
	if old.data != nil && bytes.Equal(old.data, d.Data) {
		return old
	}
	opened := k.docs.Decode(d)
	r, err := ringOf(&opened)
	if err == nil {
		return knownRing{data: d.Data, ring: r}
	}
	k.log.ErrorContext(ctx, "signing secrets of a topic cannot be decrypted", "topic", d.Name, "error", err)
	if old.ring != nil {
		return knownRing{data: d.Data, ring: old.ring}
	}
	return knownRing{data: d.Data, err: err}
}

// learn makes known a document that this node wrote, or deleted (nil data). The caller
// holds storeCalls.
func (k *Keyring) learn(topic string, data []byte, r ring) {
	known := k.known.Load()
	next := &snapshot{rings: maps.Clone(known.rings), checked: known.checked, err: known.err}
	if next.rings == nil {
		next.rings = map[string]knownRing{}
	}
	next.rings[documentName(topic)] = knownRing{data: data, ring: r}
	if data == nil {
		delete(next.rings, topic)
	}
	k.known.Store(next)
}
