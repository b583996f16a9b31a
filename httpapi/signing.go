package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/job"
)

// Signing is what the API needs of the signing secrets, of which those of the
// topic "" are the default. A *signing.Keyring is one.
type Signing interface {
	Info(ctx context.Context, topic string) (signing.Info, error)
	Set(ctx context.Context, topic, secret string, overlap time.Duration) (signing.Change, error)
	Rotate(ctx context.Context, topic string, overlap time.Duration) (secret string, _ signing.Change, _ error)
	Delete(ctx context.Context, topic string) error
}

const (
	// defaultOverlap is how long a rotated secret goes on signing unless the
	// request says otherwise.
	defaultOverlap = 24 * time.Hour
	// maxSecretRequest bounds, in bytes, the request for a new secret.
	maxSecretRequest = 4 << 10
)

// secretDraft is a secret as somebody wishes it.
type secretDraft struct {
	secret  string // empty: one is made
	overlap *time.Duration
}

var (
	secretFields   = newFieldSet(map[string]func(*secretDraft, field){"secret": setSecret})
	rotationFields = newFieldSet(map[string]func(*secretDraft, field){"secret": setSecret, "overlap": setOverlap})
)

func setSecret(d *secretDraft, f field) {
	s := f.text()
	switch {
	case s == nil:
	case *s == "":
		f.fail("must not be empty; leave it out to have one made")
	default:
		d.secret = *s
	}
}

func setOverlap(d *secretDraft, f field) {
	overlap, err := job.ParseDelay(f.raw)
	if err != nil {
		f.fail(err.Error())
		return
	}
	d.overlap = &overlap
}

// getDefaultSecret answers GET /v1/signing.
func (s *Server) getDefaultSecret(c echo.Context) error { return s.showSecrets(c, "") }

// putDefaultSecret answers PUT /v1/signing.
func (s *Server) putDefaultSecret(c echo.Context) error { return s.putSecret(c, "") }

// rotateDefaultSecret answers POST /v1/signing/rotate.
func (s *Server) rotateDefaultSecret(c echo.Context) error { return s.rotateSecret(c, "") }

// getTopicSecret answers GET /v1/topics/{topic}/signing.
func (s *Server) getTopicSecret(c echo.Context) error { return s.ofTopic(c, s.showSecrets) }

// putTopicSecret answers PUT /v1/topics/{topic}/signing.
func (s *Server) putTopicSecret(c echo.Context) error { return s.ofTopic(c, s.putSecret) }

// rotateTopicSecret answers POST /v1/topics/{topic}/signing/rotate.
func (s *Server) rotateTopicSecret(c echo.Context) error { return s.ofTopic(c, s.rotateSecret) }

// deleteTopicSecret answers DELETE /v1/topics/{topic}/signing.
func (s *Server) deleteTopicSecret(c echo.Context) error { return s.ofTopic(c, s.deleteSecret) }

func (s *Server) ofTopic(c echo.Context, answer func(echo.Context, string) error) error {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return err
	}
	return answer(c, topic)
}

func (s *Server) showSecrets(c echo.Context, topic string) error {
	if err := s.checkSigning(); err != nil {
		return err
	}
	info, err := s.opts.Signing.Info(c.Request().Context(), topic)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, viewSecrets(&info))
}

// putSecret puts a secret in force alone and at once.
func (s *Server) putSecret(c echo.Context, topic string) error {
	body, err := readJSON(c, maxSecretRequest)
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), secretFields)
	if err := errs.err(); err != nil {
		return err
	}
	view, first, err := s.changeSecret(c.Request().Context(), topic, draft.secret, 0)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if first {
		status = http.StatusCreated
	}
	return writeJSON(c, status, view)
}

// rotateSecret puts a secret in force beside those of before, for a while.
func (s *Server) rotateSecret(c echo.Context, topic string) error {
	draft, err := readRotation(c)
	if err != nil {
		return err
	}
	overlap := defaultOverlap
	if draft.overlap != nil {
		overlap = *draft.overlap
	}
	view, _, err := s.changeSecret(c.Request().Context(), topic, draft.secret, overlap)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, view)
}

func readRotation(c echo.Context) (*secretDraft, error) {
	body, err := readOptionalJSON(c, maxSecretRequest)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return &secretDraft{}, nil
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), rotationFields)
	return draft, errs.err()
}

// changeSecret makes a secret unless one is given. first says that there was
// none before.
func (s *Server) changeSecret(ctx context.Context, topic, secret string, overlap time.Duration) (_ *newSecretView, first bool, err error) {
	if err := s.checkSigning(); err != nil {
		return nil, false, err
	}
	var change signing.Change
	if secret == "" {
		secret, change, err = s.opts.Signing.Rotate(ctx, topic, overlap)
	} else {
		change, err = s.opts.Signing.Set(ctx, topic, secret, overlap)
	}
	if err != nil {
		return nil, false, err
	}
	return &newSecretView{Secret: secret, secretsView: viewSecrets(&change.Info)}, change.First, nil
}

func (s *Server) deleteSecret(c echo.Context, topic string) error {
	if err := s.checkSigning(); err != nil {
		return err
	}
	if err := s.opts.Signing.Delete(c.Request().Context(), topic); err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, deletedView{Result: "deleted"})
}

func (s *Server) checkSigning() error {
	if s.opts.Signing != nil {
		return nil
	}
	return &apiError{
		code:   codeSigningOff,
		detail: "This server runs with --signing off. Start all servers without that setting to sign deliveries.",
	}
}

// asSigningError is the part of asAPIError for signing secrets. What it does
// not know is nil.
func asSigningError(err error) *apiError {
	switch {
	case errors.Is(err, signing.ErrNoSecret):
		return &apiError{
			code: codeSecretNotFound, cause: err,
			detail: "The topic has no signing secret of its own, or there is no default one yet. PUT sets one. Names are case-sensitive.",
		}
	case errors.Is(err, signing.ErrConfigured):
		return &apiError{
			code: codeSecretFixed, cause: err,
			detail: "The default signing secret is in the servers' settings. Change --signing-secret there (new,old signs with both), and restart them. Topics can have secrets of their own.",
		}
	case errors.Is(err, signing.ErrTooManySecrets):
		return &apiError{
			code: codeTooManySecrets, cause: err,
			detail: fmt.Sprintf("At most %d secrets can sign at the same time. Wait until one of them ends, or PUT a secret: then the others end at once.", signing.MaxSecrets),
		}
	case errors.Is(err, signing.ErrNoMasterKey):
		return &apiError{
			code: codeMasterKeyMissing, cause: err,
			detail: "This server signs with the secret of its settings, and has no master key to keep other secrets with. Start all servers with the same --master-key.",
		}
	case errors.Is(err, signing.ErrMasterKey):
		return &apiError{
			code: codeSecretUnreadable, cause: err,
			detail: "The secrets were encrypted with a master key that this server was not given. Give it that one in --master-key. A topic's can also be deleted and set anew.",
		}
	case errors.Is(err, signing.ErrDamaged):
		return &apiError{
			code: codeSecretUnreadable, cause: err,
			detail: "What is stored of the secrets is damaged. Restore it from a backup. A topic's can also be deleted and set anew.",
		}
	}
	return nil
}

// secretsView is the secrets that sign for a topic, without the secrets.
type secretsView struct {
	Topic   *string      `json:"topic"` // null: the default
	Source  string       `json:"source"`
	Secrets []secretView `json:"secrets"`
}

// secretView is one secret, without the secret.
type secretView struct {
	ID        string  `json:"id"`
	CreatedAt instant `json:"created_at"`
	EndsAt    instant `json:"ends_at"`
}

// newSecretView is the only answer that shows a secret.
type newSecretView struct {
	Secret string `json:"secret"`
	secretsView
}

type deletedView struct {
	Result string `json:"result"`
}

func viewSecrets(info *signing.Info) secretsView {
	v := secretsView{Topic: orNull(&info.Topic), Source: string(info.Source), Secrets: make([]secretView, len(info.Secrets))}
	for i, s := range info.Secrets {
		v.Secrets[i] = secretView{ID: s.ID, CreatedAt: instant(s.CreatedAt), EndsAt: instant(s.EndsAt)}
	}
	return v
}
