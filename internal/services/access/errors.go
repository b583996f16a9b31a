package access

import (
	"errors"
	"fmt"
)

// Why a caller is not known. All of these are a 401.
var (
	// ErrMissing: there is no Authorization header.
	ErrMissing = errors.New("no API key was given")
	// ErrMalformed: what is in the header cannot be an API key. What wraps it
	// says why.
	ErrMalformed = errors.New("malformed API key")
	// ErrUnknown: there is no such key, or its secret is another one.
	ErrUnknown = errors.New("unknown API key")
	// ErrExpired: the key was valid once.
	ErrExpired = errors.New("expired API key")
)

// Errors of managing keys.
var (
	// ErrNoKey: no key has this id.
	ErrNoKey = errors.New("there is no API key of this id")
	// ErrFixedKey: the key is in the settings of the servers, where alone it
	// can be changed.
	ErrFixedKey = errors.New("the API key is in the settings")
	// ErrTooManyKeys: MaxKeys is reached.
	ErrTooManyKeys = fmt.Errorf("there are %d API keys already", MaxKeys)
)

// NamespaceError is a known caller whose key is for the servers of another
// namespace: a 403.
type NamespaceError struct {
	Key, Server string // the namespaces
}

func (e *NamespaceError) Error() string {
	return fmt.Sprintf("the API key is for namespace %s, this server is of namespace %s", e.Key, e.Server)
}

// ScopeError is a known caller whose key may not do this: a 403.
type ScopeError struct{ Need, Have Scope }

func (e *ScopeError) Error() string {
	return fmt.Sprintf("the call needs an API key of scope %s, this one has %s", e.Need, e.Have)
}

// Challenge is the WWW-Authenticate header of an answer to err (RFC 6750, 3),
// or empty when it needs none.
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
