package access

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

// Options of a Keyring. Only Namespace has no default.
type Options struct {
	Namespace string             // of this node
	Keys      []Key              // of the settings
	Store     store.Documents    // of stored keys; nil: there are none
	Clock     job.Clock          // nil: the machine's
	Now       func() job.Instant // the store's time, by which keys expire; nil: the clock's
	Logger    *slog.Logger       // nil: none
	Rate      Rate               // of keys without their own; zero: no limit
}

// Keyring knows the API keys. Its methods are safe for concurrent use.
type Keyring struct {
	opts   Options
	docs   *documents.Collection[Key]
	fixed  map[string]*entry // of the settings, which take precedence
	stored *documents.Mirror[Key, *entry]

	cursors *cursors
	// equal compares digests. A test replaces it to count comparisons.
	equal func(x, y []byte) int
}

// entry is a key in use.
type entry struct {
	key      Key
	limiter  *limiter
	unusable bool // its document has no valid key
}

// nobody is the entry of unknown ids.
var nobody = &entry{unusable: true}

// New returns a Keyring with the keys of the settings. Run adds the stored ones.
func New(o Options) (*Keyring, error) {
	if o.Namespace == "" {
		return nil, errors.New("access: Options.Namespace is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = func() job.Instant { return job.InstantOf(o.Clock.Now()) }
	}
	k := &Keyring{opts: o, docs: collection(o.Store, o.Clock, len(o.Keys)), fixed: map[string]*entry{}, cursors: newCursors(o.Store, o.Clock), equal: subtle.ConstantTimeCompare}
	for _, key := range o.Keys {
		if k.fixed[key.ID] != nil {
			return nil, fmt.Errorf("access: Options.Keys holds the id %s twice", key.ID)
		}
		k.fixed[key.ID] = k.newEntry(key)
	}
	k.stored = documents.NewMirror(k.docs, k.know)
	return k, nil
}

func (k *Keyring) newEntry(key Key) *entry {
	limit := key.Rate
	if limit == (Rate{}) {
		limit = k.opts.Rate
	}
	return &entry{key: key, limiter: newLimiter(limit)}
}

// ErrUnread is the error before the first read of the stored keys.
var ErrUnread = fmt.Errorf("%w: the stored API keys have not been read yet", store.ErrUnavailable)

// Ready returns an error that wraps store.ErrUnavailable while stored keys may be unknown.
func (k *Keyring) Ready() error {
	if k.opts.Store == nil || k.stored.Complete() {
		return nil
	}
	return ErrUnread
}

// Authenticate returns the caller by the Authorization header of a request (the values of
// several, joined by commas). Errors: ErrMissing, ErrMalformed, ErrUnknown, ErrExpired, and
// store.ErrUnavailable before the first read of the stored keys. Principal.Allows decides
// what the caller may do.
func (k *Keyring) Authenticate(authorization string) (Principal, error) {
	token, err := bearerToken(authorization)
	if err != nil {
		return Principal{}, err
	}
	unread := k.Ready()
	e := cmp.Or(k.fixed[token.id()], k.stored.All()[token.id()], nobody)
	// An unknown id takes the same time as a wrong secret: a digest and a comparison.
	digest := token.digest()
	same := k.equal(digest[:], e.key.Digest[:]) == 1
	switch {
	case e == nobody && unread != nil:
		return Principal{}, unread
	case !same || e.unusable:
		return Principal{}, ErrUnknown
	case e.key.Expired(k.opts.Now()):
		return Principal{}, ErrExpired // only the holder of the secret learns this
	}
	return Principal{
		KeyID: e.key.ID, KeyName: e.key.Name, Scope: e.key.Scope, Namespace: e.key.Namespace, Topics: e.key.Topics,
		served: k.opts.Namespace, limiter: e.limiter,
	}, nil
}

// Take counts a request against the caller's rate limit. Each process counts separately.
func (k *Keyring) Take(p Principal) Quota { return p.limiter.take(k.opts.Clock.Now()) }

// bearerToken reads an Authorization header (RFC 6750, 2.1).
func bearerToken(header string) (Token, error) {
	if header == "" {
		return Token{}, ErrMissing
	}
	scheme, rest, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Token{}, fmt.Errorf("%w: the scheme of the Authorization header is not Bearer", ErrMalformed)
	}
	t, err := parseToken(strings.TrimLeft(rest, " "))
	if err != nil {
		return Token{}, fmt.Errorf("%w: the token %w", ErrMalformed, err)
	}
	return t, nil
}
