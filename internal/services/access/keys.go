package access

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Options of Keys. Namespace and Store have no default.
type Options struct {
	Namespace string             // of this node
	Keys      []Key              // of the settings
	Store     store.Documents    // of stored keys
	Clock     job.Clock          // nil: the machine's
	Now       func() job.Instant // the store's time, by which keys expire; nil: the clock's
	Logger    *slog.Logger       // nil: none
	Rate      Rate               // of keys without their own; zero: no limit
}

// Keys are the API keys. Their methods are safe for concurrent use.
type Keys struct {
	opts   Options
	fixed  map[string]*entry // of the settings, which take precedence
	stored *documents.Keyring[Key, *entry]

	cursors *cursors
	// equal compares digests. A test replaces it to count comparisons.
	equal func(x, y []byte) int
}

// entry is a key in use. An unchanged key keeps its limiter.
type entry struct {
	key     Key
	limiter *limiter
}

// nobody is the entry of unknown ids.
var nobody = &entry{}

// New returns Keys with those of the settings. Run adds the stored ones.
func New(o Options) (*Keys, error) {
	if o.Namespace == "" {
		return nil, errors.New("access: Options.Namespace is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = func() job.Instant { return job.InstantOf(o.Clock.Now()) }
	}
	k := &Keys{opts: o, fixed: map[string]*entry{}, cursors: newCursors(o.Store, o.Clock), equal: subtle.ConstantTimeCompare}
	for i := range o.Keys {
		id := o.Keys[i].ID
		if k.fixed[id] != nil {
			return nil, fmt.Errorf("access: Options.Keys holds the id %s twice", id)
		}
		k.fixed[id] = k.newEntry(&o.Keys[i])
	}
	k.stored = documents.NewKeyring(documents.KeyringOptions[Key, *entry]{
		Options: stored(o.Store, o.Clock, len(o.Keys)), What: "API keys", Of: k.newEntry, Logger: o.Logger,
	})
	return k, nil
}

func (k *Keys) newEntry(key *Key) *entry {
	limit := key.Rate
	if limit == (Rate{}) {
		limit = k.opts.Rate
	}
	return &entry{key: *key, limiter: newLimiter(limit)}
}

// Run keeps the stored keys up to date until ctx ends.
func (k *Keys) Run(ctx context.Context) error { return k.stored.Run(ctx) }

// Load reads the stored keys.
func (k *Keys) Load(ctx context.Context) error { return k.stored.Load(ctx) }

// Ready returns an error that wraps documents.ErrUnread while stored keys may be unknown.
func (k *Keys) Ready() error { return k.stored.Ready() }

// entry returns the key of an id. A stored one that cannot be read is none: it may permit less than before.
func (k *Keys) entry(id string) *entry {
	if fixed := k.fixed[id]; fixed != nil {
		return fixed
	}
	if known, ok := k.stored.All()[id]; ok && known.Err == nil {
		return known.Value
	}
	return nobody
}

// Authenticate returns the caller by the Authorization header of a request (the values of
// several, joined by commas). Errors: ErrMissing, ErrMalformed, ErrUnknown, ErrExpired, and
// documents.ErrUnread before the first read of the stored keys. Principal.Allows decides
// what the caller may do.
func (k *Keys) Authenticate(authorization string) (Principal, error) {
	token, err := bearerToken(authorization)
	if err != nil {
		return Principal{}, err
	}
	unread := k.Ready()
	e := k.entry(token.id())
	// An unknown id takes the same time as a wrong secret: a digest and a comparison.
	digest := token.digest()
	same := k.equal(digest[:], e.key.Digest[:]) == 1
	switch {
	case e == nobody && unread != nil:
		return Principal{}, unread
	case !same || e == nobody:
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
func (k *Keys) Take(p Principal) Quota { return p.limiter.take(k.opts.Clock.Now()) }

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
