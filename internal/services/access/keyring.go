package access

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Options are the settings of a Keyring. Only Namespace has no default.
type Options struct {
	// Namespace is the one that this server serves.
	Namespace string
	// Keys are those of the settings.
	Keys []Key
	// Store holds the keys that are added and revoked at run time; nil means
	// that there are none but those of the settings.
	Store store.Documents
	// Clock tells which keys have expired and when to read Store again; nil
	// means the machine's.
	Clock job.Clock
	// Logger gets a line when Store cannot be read, and when it can again; nil
	// means none.
	Logger *slog.Logger
	// Rate limits keys without a rate of their own; zero does not.
	Rate Rate
}

// Keyring knows the API keys. Its methods are safe for concurrent use.
type Keyring struct {
	opts    Options
	docs    *documents.Collection[record]
	fixed   map[string]*entry // of the settings
	current atomic.Pointer[keySet]
	// equal compares digests. It is a field so that a test can see that every
	// answer costs one comparison.
	equal func(x, y []byte) int

	refreshing sync.Mutex
	failing    bool // the last refresh failed; guarded by refreshing
}

// keySet is every key at one time. It is never changed.
type keySet struct {
	byID map[string]*entry
	// complete is set when the stored keys have been read.
	complete bool
}

// entry is a key in use.
type entry struct {
	key     Key
	limiter *limiter
	version uint64 // of the document; 0 for keys of the settings
	// unusable entries stand for documents that hold no valid key.
	unusable bool
}

// nobody takes the place of an entry that does not exist.
var nobody = &entry{unusable: true}

// New makes a Keyring of the keys in the settings. Run adds those in the store.
func New(o Options) (*Keyring, error) {
	if o.Namespace == "" {
		return nil, errors.New("access: Options.Namespace is missing")
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keyring{opts: o, docs: collection(o.Store), fixed: map[string]*entry{}, equal: subtle.ConstantTimeCompare}
	for _, key := range o.Keys {
		if k.fixed[key.ID] != nil {
			return nil, fmt.Errorf("access: Options.Keys holds the id %s twice", key.ID)
		}
		k.fixed[key.ID] = k.newEntry(key, 0)
	}
	k.current.Store(&keySet{byID: maps.Clone(k.fixed), complete: o.Store == nil})
	return k, nil
}

func (k *Keyring) newEntry(key Key, version uint64) *entry {
	limit := key.Rate
	if limit == (Rate{}) {
		limit = k.opts.Rate
	}
	return &entry{key: key, limiter: newLimiter(limit), version: version}
}

// Authenticate tells who sent a request, from its Authorization header (of
// several, their values joined by commas). Its errors are ErrMissing,
// ErrMalformed, ErrUnknown and ErrExpired, or, while the stored keys have not
// been read even once, store.ErrUnavailable. A known caller is not yet an
// allowed one: see Principal.Allows.
func (k *Keyring) Authenticate(authorization string) (Principal, error) {
	token, err := bearerToken(authorization)
	if err != nil {
		return Principal{}, err
	}
	set := k.current.Load()
	e := set.byID[token.id()]
	if e == nil {
		e = nobody
	}
	// An unknown id costs the same as a wrong secret: a digest and a comparison.
	digest := token.digest()
	same := k.equal(digest[:], e.key.Digest[:]) == 1
	switch {
	case e == nobody && !set.complete:
		return Principal{}, fmt.Errorf("%w: the stored API keys have not been read yet", store.ErrUnavailable)
	case !same || e.unusable:
		return Principal{}, ErrUnknown
	case e.key.Expired(job.InstantOf(k.opts.Clock.Now())):
		return Principal{}, ErrExpired // only the holder of the secret is told
	}
	return Principal{
		KeyID: e.key.ID, KeyName: e.key.Name, Scope: e.key.Scope, Namespace: e.key.Namespace,
		served: k.opts.Namespace, limiter: e.limiter,
	}, nil
}

// Take counts a request against the caller's rate limit. Each process counts
// on its own.
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
