package access

import (
	"log/slog"

	"github.com/duehook/duehook/internal/job"
)

// Principal is the caller of a request.
type Principal struct {
	// KeyID is empty for an anonymous caller.
	KeyID     string
	KeyName   string
	Scope     Scope
	Namespace string
	// Topics restricts the caller to topics; empty: all.
	Topics job.TopicSet

	served  string // the namespace of this node
	limiter *limiter
}

// Allows returns an error if the caller may not make a call that requires a scope: a
// *NamespaceError or a *ScopeError.
func (p Principal) Allows(need Scope) error {
	switch {
	case p.Namespace != p.served:
		return &NamespaceError{Key: p.Namespace, Server: p.served}
	case !p.Scope.includes(need):
		return &ScopeError{Need: need, Have: p.Scope}
	}
	return nil
}

// LogValue names the caller.
func (p Principal) LogValue() slog.Value {
	id := p.KeyID
	if id == "" {
		id = "anonymous"
	}
	return slog.GroupValue(slog.String("key_id", id), slog.String("key_name", p.KeyName))
}
