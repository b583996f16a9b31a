package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
)

// Access checks API keys. *access.Keys implements it.
type Access interface {
	Authenticate(authorization string) (access.Principal, error)
	Take(p access.Principal) access.Quota
	// See returns a context whose calls hand out what the caller may see.
	See(ctx context.Context, p access.Principal) context.Context
}

// admit decides whether the caller may make the call.
func (s *Server) admit(c *Call) error {
	if c.route.Scope == access.Public {
		return s.charge(c.hold(), c.caller)
	}
	caller, known := c.Context().Value(callerKey{}).(access.Principal)
	if !known {
		var err error
		if caller, err = s.identify(c.Request.Host, authorization(c)); err != nil {
			return err
		}
	}
	if s.opts.Access == nil {
		return nil
	}
	c.caller, c.keyed = caller, true
	c.Request = c.Request.WithContext(s.opts.Access.See(c.Context(), caller))
	if err := s.charge(c.hold(), caller); err != nil {
		return err
	}
	quota := s.opts.Access.Take(caller)
	quota.SetHeaders(c.Header())
	if !quota.Allowed {
		return &Error{
			Code: CodeRateLimited,
			Detail: fmt.Sprintf("The API key is limited to %s. Try again after Retry-After, or register several jobs in one batch.",
				quota.Rate),
		}
	}
	if err := caller.Allows(c.route.Scope); err != nil {
		return err
	}
	return c.route.allowTopics(c)
}

// identify returns the caller of a request with a Host header and with credentials.
func (s *Server) identify(host, authorization string) (caller access.Principal, err error) {
	if s.opts.LocalHosts && !access.LocalHost(host) {
		return caller, &Error{
			Code:   CodeForbidden,
			Detail: "Without API keys, this server answers only requests to localhost or to its IP address. Use one of them, or set --api-keys.",
		}
	}
	if s.opts.Access == nil {
		return caller, nil
	}
	return s.opts.Access.Authenticate(authorization)
}

// callerKey is the key of the caller in the context of a request that known has seen.
type callerKey struct{}

// known returns a request with its caller, or an error if no call would admit the caller.
func (s *Server) known(r *http.Request) (*http.Request, error) {
	if err := Refused(r.Context()); err != nil {
		return nil, err
	}
	caller, err := s.identify(r.Host, bearer(r))
	if err != nil {
		return nil, err
	}
	if err := s.charge(memory.Of(r.Context()), caller); err != nil {
		return nil, err
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)), nil
}

// allowTopics decides for callers who are restricted to topics. A call that was forgotten is
// refused to them.
func (rt *served) allowTopics(c *Call) error {
	if rt.OwnTopics {
		return nil
	}
	topic := "" // of all
	if strings.Contains(rt.Path, "{topic}") && !rt.AllTopics {
		topic = c.Param("topic")
	}
	return c.Topics().Allow(topic)
}

func authorization(c *Call) string {
	if of := c.route.dialect.Authorization; of != nil {
		return of(c.Request)
	}
	return bearer(c.Request)
}

// bearer is the Authorization header. Several are joined, so that they match no key.
func bearer(r *http.Request) string {
	return strings.Join(r.Header.Values(echo.HeaderAuthorization), ", ")
}

// audit logs each request that would change something, and its result.
func (s *Server) audit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		call := callOf(c)
		if s.opts.Access == nil || call.route == nil || call.route.Safe || call.route.Method == http.MethodGet && !call.route.Changes {
			return err
		}
		change := access.Change{
			Who: call.caller, What: call.route.Method + " " + call.route.Path, Target: call.Target, Result: "ok",
			Client:    c.RealIP(),
			RequestID: c.Response().Header().Get(echo.HeaderXRequestID),
		}
		if change.Target == "" {
			change.Target = strings.Join(c.ParamValues(), "/")
		}
		if err != nil {
			change.Result = AsError(err).Code.Name
		}
		s.auditLog.Log(c.Request().Context(), &change)
		return err
	}
}
