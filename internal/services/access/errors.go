package access

import (
	"errors"
	"fmt"
)

// Errors of authentication. All of them are a 401.
var (
	// ErrMissing: there is no Authorization header.
	ErrMissing = errors.New("no API key was given")
	// ErrMalformed: the header contains no API key. The wrapping error says why.
	ErrMalformed = errors.New("malformed API key")
	// ErrUnknown: there is no such key, or its secret is different.
	ErrUnknown = errors.New("unknown API key")
	// ErrExpired: the key has expired.
	ErrExpired = errors.New("expired API key")
)

// Errors of managing keys.
var (
	// ErrNoKey: there is no key with this id.
	ErrNoKey = errors.New("there is no API key with this id")
	// ErrFixedKey: the key is in the settings, so only they can change it.
	ErrFixedKey = errors.New("the API key is in the settings")
	// ErrTooManyKeys: MaxKeys is reached.
	ErrTooManyKeys = fmt.Errorf("there are already %d API keys", MaxKeys)
)

// NamespaceError reports a key for another namespace: a 403.
type NamespaceError struct {
	Key, Server string // the namespaces
}

func (e *NamespaceError) Error() string {
	return fmt.Sprintf("the API key is for namespace %s, and this node serves namespace %s", e.Key, e.Server)
}

// ScopeError reports a key whose scope does not permit the call: a 403.
type ScopeError struct{ Need, Have Scope }

func (e *ScopeError) Error() string {
	return fmt.Sprintf("the call requires an API key of scope %s, and this one has scope %s", e.Need, e.Have)
}

// Challenge returns the WWW-Authenticate header of the answer to err (RFC 6750, 3); empty:
// none is needed.
func Challenge(err error) string {
	const scheme = `Bearer realm="duehook"`
	var scope *ScopeError
	switch {
	case errors.Is(err, ErrMissing):
		return scheme
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrUnknown), errors.Is(err, ErrExpired):
		return scheme + `, error="invalid_token"`
	case errors.As(err, &scope):
		return fmt.Sprintf(`%s, error="insufficient_scope", scope="%s"`, scheme, scope.Need)
	}
	return ""
}
