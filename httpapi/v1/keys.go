package v1

import (
	"net/http"

	"github.com/duehook/duehook/internal/services/access"
)

// whoAmI answers GET /v1/whoami. On a server without keys, everybody may do what an
// admin may.
func (s *API) whoAmI(r *request) (any, error) {
	caller, known := r.Caller()
	if !known {
		return callerView{Scope: access.Admin.String()}, nil
	}
	return callerView{KeyID: &caller.KeyID, KeyName: orNull(&caller.KeyName), Scope: caller.Scope.String()}, nil
}

// listKeys answers GET /v1/keys.
func (s *API) listKeys(r *request) (any, error) {
	keys, err := s.Access.List(r.Context())
	return listOf(keys, viewKey), err
}

// createKey answers POST /v1/keys.
func (s *API) createKey(r *request) (any, error) {
	draft, err := readAll(r, maxSmall, keyFields)
	if err != nil {
		return nil, err
	}
	token, key, err := s.Access.Create(r.Context(), *draft)
	if err != nil {
		return nil, err
	}
	r.Target = key.ID
	return answer{http.StatusCreated, newKeyView{Token: token.Reveal(), keyView: viewKey(&key)}}, nil
}

// revokeKey answers DELETE /v1/keys/{id}.
func (s *API) revokeKey(r *request) (any, error) {
	return resultOf("revoked"), s.Access.Revoke(r.Context(), r.id)
}
