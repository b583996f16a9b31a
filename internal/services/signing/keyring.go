package signing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Freshness is the time after which a change of secrets is in use on all nodes
// that can read the store: staleAfter and a read.
const Freshness = staleAfter + readTimeout

const (
	// refreshAfter is the age at which one of those who sign reads the
	// documents again, while the others go on with what is known.
	refreshAfter = 3 * time.Second
	// staleAfter is the age from which everybody waits for that: nobody has
	// signed for a while. Before it, signing does not wait.
	staleAfter = 6 * time.Second
	// readTimeout keeps a store that hangs from holding up deliveries.
	readTimeout = time.Second
)

// Kinds of documents.
const (
	kindTopic   = "signing-secret"
	kindDefault = "signing-secret-default"
	nameDefault = "default"
)

// ErrNoSecret says that there is no secret where one was asked for.
var ErrNoSecret = errors.New("no signing secret")

// Options of a Keyring. Only Documents has no default.
type Options struct {
	Documents store.Documents
	// MasterKeys open what is kept; the first also seals. To change the key, let
	// all nodes know the new one behind the old, then put it in front, call
	// Reseal, and take the old one away. With none, secrets cannot be stored: a
	// configured default is all there is.
	MasterKeys []MasterKey
	Clock      job.Clock    // nil: the machine's
	Logger     *slog.Logger // nil: none
}

// Keyring signs deliveries and manages the secrets. It is safe for concurrent
// use, and runs nothing in the background.
type Keyring struct {
	sealer sealer
	clock  job.Clock
	log    *slog.Logger
	// The documents: of topics with secrets of their own, by name, and the default's,
	// which has another kind, because any name can be a topic's.
	topics, defaults *documents.Collection[[]keptSecret]

	// candidate is the default that this node makes if there is none.
	candidate Secret
	// configured is the default that the settings name, or nil.
	configured atomic.Pointer[ring]
	known      atomic.Pointer[snapshot]
	// turn is held by whoever talks to the store, so that an older answer never
	// takes the place of a newer one.
	turn    turn
	failing bool // the last refresh failed; guarded by turn
}

// snapshot is what is known of the documents. It does not change once it is
// stored.
type snapshot struct {
	rings   map[string]knownRing // by topic; the default's is ""
	checked time.Time            // when the documents were read, or could not be
	err     error                // why they have never been read
}

// knownRing is one document, opened.
type knownRing struct {
	data []byte // as read
	ring ring   // of the last content that could be opened
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
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keyring{
		sealer: o.MasterKeys, clock: o.Clock, log: o.Logger, turn: make(turn, 1),
		candidate: NewSecret(),
	}
	k.topics, k.defaults = k.collection(o.Documents, kindTopic), k.collection(o.Documents, kindDefault)
	k.known.Store(&snapshot{err: errUnread})
	return k, nil
}

func (k *Keyring) collection(s store.Documents, kind string) *documents.Collection[[]keptSecret] {
	return documents.New(documents.Options[[]keptSecret]{
		Store: s, Kind: kind,
		Seal: func(name string, plain []byte) ([]byte, error) { return k.sealer.seal(kind, name, plain) },
		Open: func(name string, data []byte) ([]byte, error) { return k.sealer.open(kind, name, data) },
	})
}

// place is where the secrets of a topic are kept, or those of the default, "".
func (k *Keyring) place(topic string) (*documents.Collection[[]keptSecret], string) {
	if topic == "" {
		return k.defaults, nameDefault
	}
	return k.topics, topic
}

// Sign makes the value of the header webhook-signature of one attempt: the
// body sent for topic with the webhook-id id and the webhook-timestamp at. It
// seldom talks to the store; while that cannot be read, the secrets known stay
// in use. The error wraps ErrMasterKey or ErrDamaged when the topic's secrets
// cannot be opened, and ErrNoSecret before EnsureDefault.
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

// Load reads the secrets. Once it has, Sign works while the store cannot be
// read.
func (k *Keyring) Load(ctx context.Context) error {
	if err := k.turn.take(ctx); err != nil {
		return err
	}
	defer k.turn.pass()
	_, err := k.refresh(ctx, k.known.Load())
	return err
}

// signer is the ring that signs for a topic. Secrets that cannot be opened are
// an error: receivers of the topic do not know the default.
func (k *Keyring) signer(known *snapshot, topic string) (ring, error) {
	if own, ok := known.rings[topic]; ok && topic != "" {
		return own.ring, own.err
	}
	if configured := k.configured.Load(); configured != nil {
		return *configured, nil
	}
	if def, ok := known.rings[""]; ok {
		return def.ring, def.err
	}
	return nil, ErrNoSecret
}

// fresh is what is known, read again when it is old.
func (k *Keyring) fresh(ctx context.Context) (*snapshot, error) {
	known := k.known.Load()
	switch age := k.age(known); {
	case age < refreshAfter:
		return known, known.err
	case age < staleAfter:
		if !k.turn.tryTake() {
			return known, known.err
		}
	default:
		if err := k.turn.take(ctx); err != nil {
			return known, unread(known, err)
		}
	}
	defer k.turn.pass()
	known = k.known.Load()
	if k.age(known) < refreshAfter { // somebody else did it
		return known, known.err
	}
	return k.refresh(ctx, known)
}

func (k *Keyring) age(known *snapshot) time.Duration { return k.clock.Now().Sub(known.checked) }

// unread is cause if nothing is known: then there is nothing to go on with.
func unread(known *snapshot, cause error) error {
	if known.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnread, cause)
}

// refresh reads the documents. A failure counts as a reading, so that a store
// in trouble is not asked all the time, unless it is ctx that ended. The
// caller has the turn.
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
		next.rings, next.err = old.rings, unread(old, err)
	}
	if failed := err != nil; failed != k.failing {
		k.failing = failed
		k.logRefresh(ctx, err)
	}
	k.known.Store(next)
	return next, next.err
}

func (k *Keyring) logRefresh(ctx context.Context, err error) {
	if err != nil {
		k.log.WarnContext(ctx, "signing secrets cannot be read; those known stay in use", "error", err)
		return
	}
	k.log.InfoContext(ctx, "signing secrets can be read again")
}

// read reads all documents, and opens those that are not in old as they stand.
func (k *Keyring) read(ctx context.Context, old map[string]knownRing) (map[string]knownRing, error) {
	docs, err := k.topics.List(ctx)
	if err != nil {
		return nil, err
	}
	rings := make(map[string]knownRing, len(docs)+1)
	for _, d := range docs {
		rings[d.Name] = k.know(ctx, d, d.Name, old[d.Name])
	}
	defs, err := k.defaults.List(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(defs) > 0:
		rings[""] = k.know(ctx, defs[0], "", old[""])
	case old[""].data != nil:
		return k.putBack(ctx, old, rings)
	}
	return rings, nil
}

// putBack writes what the store lost, and adds it to rings. Nobody deletes the
// default: a store without it lost its documents, those of topics included.
func (k *Keyring) putBack(ctx context.Context, old, rings map[string]knownRing) (map[string]knownRing, error) {
	for topic, known := range old {
		if _, there := rings[topic]; there {
			continue
		}
		docs, name := k.place(topic)
		// After a conflict, the next reading shows what another node put back.
		if err := docs.Restore(ctx, name, known.data); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		rings[topic] = known
	}
	k.log.WarnContext(ctx, "the store lost signing secrets; this node put back those that it knows")
	return rings, nil
}

// know opens a document, unless old is of the same content. If it cannot be
// opened, the ring known before stays in use.
func (k *Keyring) know(ctx context.Context, d store.Document, topic string, old knownRing) knownRing {
	if old.data != nil && bytes.Equal(old.data, d.Data) {
		return old
	}
	docs, _ := k.place(topic)
	opened := docs.Decode(d)
	r, err := ringOf(&opened)
	if err == nil {
		return knownRing{data: d.Data, ring: r}
	}
	k.log.ErrorContext(ctx, "the signing secrets of a topic cannot be opened", "topic", topic, "error", err)
	if old.ring != nil {
		return knownRing{data: d.Data, ring: old.ring}
	}
	return knownRing{data: d.Data, err: err}
}

// learn makes what this node has just written (or deleted: nil data) known at
// once. The caller has the turn.
func (k *Keyring) learn(topic string, data []byte, r ring) {
	known := k.known.Load()
	next := &snapshot{rings: maps.Clone(known.rings), checked: known.checked, err: known.err}
	if data == nil {
		delete(next.rings, topic)
	} else {
		if next.rings == nil {
			next.rings = map[string]knownRing{}
		}
		next.rings[topic] = knownRing{data: data, ring: r}
	}
	k.known.Store(next)
}

// turn is a lock that can be waited for with a context.
type turn chan struct{}

func (t turn) tryTake() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) pass() { <-t }
