package v1

import (
	"net/http"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
)

// whoAmI answers GET /v1/whoami. On a server without keys, everybody may do what an
// admin may.
func (s *API) whoAmI(r *request) (view, error) {
	caller, known := r.Caller()
	if !known {
		caller.Scope = access.Admin
	}
	return func(w *writer) {
		w.textOrNull("key", caller.KeyID)
		w.textOrNull("key_name", caller.KeyName)
		w.text("scope", caller.Scope.String())
		writeTopicSet(w, caller.Topics)
	}, nil
}

// listKeys answers GET /v1/keys.
func (s *API) listKeys(r *request) (view, error) {
	keys, err := s.Access.List(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, keys, orderOfKey, writeKey)
}

// createKey answers POST /v1/keys. It is the only answer that shows a token.
func (s *API) createKey(r *request) (view, error) {
	draft, err := readAll(r, maxSmall, keyFields)
	if err != nil {
		return nil, err
	}
	token, key, err := s.Access.Create(r.Context(), *draft)
	if err != nil {
		return nil, err
	}
	r.Target, r.status = key.ID, http.StatusCreated
	return func(w *writer) {
		w.text("token", token.Reveal())
		writeKey(w, &key)
	}, nil
}

// revokeKey answers DELETE /v1/keys/{id}.
func (s *API) revokeKey(r *request) (view, error) {
	return resultOf("revoked"), s.Access.Revoke(r.Context(), r.Param("id"))
}

// writeKey writes an API key. A stored key that cannot be read has an id only.
func writeKey(w *writer, k *access.Key) {
	scope, source := "", "settings"
	if k.Scope != access.Nobody {
		scope = k.Scope.String()
	}
	if k.Stored {
		source = "store"
	}
	w.text("id", k.ID)
	w.textOrNull("name", k.Name)
	w.textOrNull("scope", scope)
	w.textOrNull("namespace", k.Namespace)
	w.instant("created_at", k.CreatedAt)
	w.instant("expires_at", k.ExpiresAt)
	w.textOrNull("rate", k.Rate.String())
	writeTopicSet(w, k.Topics)
	w.text("source", source)
}

// writeTopicSet writes the topics to which a key is restricted; null: all.
func writeTopicSet(w *writer, s job.TopicSet) {
	if len(s) == 0 {
		w.null("topics")
		return
	}
	w.member("topics", s)
}
