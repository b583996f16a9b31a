package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/access"
)

// What a request's context holds for the audit line.
const (
	contextCaller = "duehook.caller" // the access.Principal, once it is known
	contextTarget = "duehook.target" // what is changed, if the path does not say
)

// admit decides whether the caller may make a call of a scope.
func (s *Server) admit(c echo.Context, scope access.Scope) error {
	if scope == access.Public {
		return nil
	}
	r := c.Request()
	if s.opts.LocalHosts && !access.LocalHost(r.Host) {
		return &apiError{
			code:   codeForbidden,
			detail: "Without API keys, this server answers to its address only. Ask it as localhost or by its IP address, or give it API keys.",
		}
	}
	if s.opts.Access == nil {
		return nil
	}
	// Of several headers none may be passed over, so together they are one
	// that is no key.
	caller, err := s.opts.Access.Authenticate(strings.Join(r.Header.Values(echo.HeaderAuthorization), ", "))
	if err != nil {
		return err
	}
	c.Set(contextCaller, caller)
	quota := s.opts.Access.Take(caller)
	quota.SetHeaders(c.Response().Header())
	if !quota.Allowed {
		return &apiError{
			code: codeRateLimited,
			detail: fmt.Sprintf("The API key is limited to %s. Try again after the seconds in Retry-After, or register many jobs in one batch.",
				quota.Rate),
		}
	}
	return caller.Allows(scope)
}

// allow decides on a scope that a call needs only for some requests.
func allow(c echo.Context, scope access.Scope) error {
	caller, known := c.Get(contextCaller).(access.Principal)
	if !known {
		return nil // nobody is asked for a key
	}
	return caller.Allows(scope)
}

// audit writes a line for each request that would change something, whatever
// became of it.
func (s *Server) audit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		what, ok := s.changes[c.Request().Method+" "+c.Path()]
		if !ok || s.opts.Access == nil {
			return err
		}
		caller, _ := c.Get(contextCaller).(access.Principal)
		target, ok := c.Get(contextTarget).(string)
		if !ok {
			target = strings.Join(c.ParamValues(), "/")
		}
		change := access.Change{
			Who: caller, What: what, Target: target, Result: "ok",
			Client:    c.RealIP(),
			RequestID: c.Response().Header().Get(echo.HeaderXRequestID),
		}
		if err != nil {
			change.Result = string(asAPIError(err).code)
		}
		change.Log(c.Request().Context(), s.opts.Logger)
		return err
	}
}

// asRefusal is the part of asAPIError for callers and their keys. What it does
// not know is nil.
func asRefusal(err error) *apiError {
	var namespace *access.NamespaceError
	var scope *access.ScopeError
	switch {
	case errors.Is(err, access.ErrMissing):
		return &apiError{
			code: codeUnauthorized, cause: err,
			detail: "The request has no API key. Send one as Authorization: Bearer and the key's token.",
		}
	case errors.Is(err, access.ErrMalformed):
		return &apiError{
			code: codeUnauthorized, cause: err,
			detail: "The request has a " + err.Error() + ". Send Authorization: Bearer and the key's token, once.",
		}
	case errors.Is(err, access.ErrUnknown):
		return &apiError{
			code: codeUnauthorized, cause: err,
			detail: "The API key is unknown here: it was revoked, or is a key of other servers.",
		}
	case errors.Is(err, access.ErrExpired):
		return &apiError{code: codeUnauthorized, cause: err, detail: "The API key has expired. Ask for a new one."}
	case errors.As(err, &namespace):
		return &apiError{
			code: codeForbidden, cause: err,
			detail: fmt.Sprintf("The API key is for servers of namespace %s, and this server is of namespace %s.", namespace.Key, namespace.Server),
		}
	case errors.As(err, &scope):
		return &apiError{
			code: codeForbidden, cause: err,
			detail: fmt.Sprintf("The call needs an API key of scope %s, and this one has scope %s.", scope.Need, scope.Have),
		}
	case errors.Is(err, access.ErrNoKey):
		return &apiError{code: codeKeyNotFound, cause: err, detail: "No API key has this id, or it was revoked before."}
	case errors.Is(err, access.ErrFixedKey):
		return &apiError{
			code: codeKeyFixed, cause: err,
			detail: "The API key is in the servers' settings. Take it out there, and restart them.",
		}
	case errors.Is(err, access.ErrTooManyKeys):
		return &apiError{
			code: codeTooManyKeys, cause: err,
			detail: fmt.Sprintf("There are %d API keys already. Revoke those that nobody needs, expired ones too.", access.MaxKeys),
		}
	}
	return nil
}

// whoAmI answers GET /v1/whoami. Where nobody is asked for a key, everybody may
// do what an admin may.
func (s *Server) whoAmI(c echo.Context) error {
	view := callerView{Scope: access.Admin.String()}
	if caller, ok := c.Get(contextCaller).(access.Principal); ok {
		view = callerView{KeyID: &caller.KeyID, KeyName: orNull(&caller.KeyName), Scope: caller.Scope.String()}
	}
	return writeJSON(c, http.StatusOK, view)
}

// maxKeyRequest bounds, in bytes, the request for a new key.
const maxKeyRequest = 16 << 10

// checkKeyed refuses to manage keys where nobody is asked for one: whoever
// passed by could leave a key behind that is valid when keys are asked for.
func (s *Server) checkKeyed() error {
	if s.opts.Access != nil {
		return nil
	}
	return &apiError{
		code:   codeForbidden,
		detail: "This server asks nobody for an API key, so it manages none. Start it with one in --api-keys first.",
	}
}

// listKeys answers GET /v1/keys.
func (s *Server) listKeys(c echo.Context) error {
	if err := s.checkKeyed(); err != nil {
		return err
	}
	keys, err := s.opts.Access.List(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, keysView{each(keys, viewKey)})
}

// createKey answers POST /v1/keys.
func (s *Server) createKey(c echo.Context) error {
	if err := s.checkKeyed(); err != nil {
		return err
	}
	body, err := readJSON(c, maxKeyRequest)
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), keyFields)
	if err := errs.err(); err != nil {
		return err
	}
	token, key, err := s.opts.Access.Create(c.Request().Context(), *draft)
	if err != nil {
		return err
	}
	c.Set(contextTarget, key.ID)
	return writeJSON(c, http.StatusCreated, newKeyView{Token: token.Reveal(), keyView: viewKey(&key)})
}

// revokeKey answers DELETE /v1/keys/{id}.
func (s *Server) revokeKey(c echo.Context) error {
	if err := s.checkKeyed(); err != nil {
		return err
	}
	id, err := pathParam(c, "id")
	if err != nil {
		return err
	}
	if err := s.opts.Access.Revoke(c.Request().Context(), id); err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, revokedView{Result: "revoked"})
}
