package v1

import (
	"net/http"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/access"
)

// whoAmI answers GET /v1/whoami. On a server without keys, everybody may do what an
// admin may.
func (s *API) whoAmI(r *request) (jsonio.View, error) {
	caller, known := r.Caller()
	if !known {
		caller.Scope = access.Admin
	}
	return func(w *jsonio.Writer) {
		w.TextOrNull("key", caller.KeyID)
		w.TextOrNull("key_name", caller.KeyName)
		w.Text("scope", caller.Scope.String())
		writeTopicSet(w, caller.Topics)
	}, nil
}

// listKeys answers GET /v1/keys.
func (s *API) listKeys(r *request) (jsonio.View, error) {
	keys, err := s.Access.List(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, keys, orderOfKey, s.writeKey)
}

// getKey answers GET /v1/keys/{id}.
func (s *API) getKey(r *request) (jsonio.View, error) {
	key, err := s.Access.Key(r.Context(), r.Param("id"))
	if err != nil {
		return nil, err
	}
	r.setVersion(key.Version)
	return jsonio.Shown(s.writeKey, &key), nil
}

// createKey answers POST /v1/keys. It is the only answer that shows a token.
func (s *API) createKey(r *request) (jsonio.View, error) {
	draft, err := readAll(r, maxSmall, keyFields)
	if err != nil {
		return nil, err
	}
	token, key, err := s.Access.Create(r.Context(), *draft)
	if err != nil {
		return nil, err
	}
	r.Target, r.status = key.ID, http.StatusCreated
	r.setVersion(key.Version)
	return func(w *jsonio.Writer) {
		w.Text("token", token.Reveal())
		s.writeKey(w, &key)
	}, nil
}

// revokeKey answers DELETE /v1/keys/{id}.
func (s *API) revokeKey(r *request) (jsonio.View, error) {
	return resultOf("revoked"), s.Access.Revoke(r.Context(), r.Param("id"), r.allow()...)
}

// writeKey writes an API key. A stored key that cannot be read has an id only.
func (s *API) writeKey(w *jsonio.Writer, k *access.Key) {
	scope, source := "", "settings"
	if k.Scope != access.Nobody {
		scope = k.Scope.String()
	}
	if k.Stored {
		source = "store"
	}
	w.Text("id", k.ID)
	w.TextOrNull("name", k.Name)
	w.TextOrNull("scope", scope)
	w.TextOrNull("namespace", k.Namespace)
	w.Text("state", string(s.Access.State(k)))
	writeStamp(w, &k.Stamp)
	w.Instant("expires_at", k.ExpiresAt)
	w.TextOrNull("rate", k.Rate.String())
	writeTopicSet(w, k.Topics)
	w.Text("source", source)
}

// writeTopicSet writes the topics to which a key is restricted; null: all.
func writeTopicSet(w *jsonio.Writer, s job.TopicSet) {
	if len(s) == 0 {
		w.Null("topics")
		return
	}
	w.Member("topics", s)
}
