package v1

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/services/signing"
)

// Signing is the part of the signing secrets that the API needs. Those of the
// topic "" are the default. A *signing.Keyring is one.
type Signing interface {
	Info(ctx context.Context, topic string) (signing.Info, error)
	Set(ctx context.Context, topic, secret string, overlap time.Duration) (signing.Change, error)
	Rotate(ctx context.Context, topic string, overlap time.Duration) (secret string, _ signing.Change, _ error)
	Delete(ctx context.Context, topic string) error
}

// secretDraft is a secret as a client asks for it.
type secretDraft struct {
	secret  string // empty: one is made
	overlap *time.Duration
}

var (
	secretFields   = newFieldSet(map[string]func(*secretDraft, field){"secret": setSecret})
	rotationFields = newFieldSet(map[string]func(*secretDraft, field){"secret": setSecret, "overlap": func(d *secretDraft, f field) { d.overlap = f.duration() }})
)

func setSecret(d *secretDraft, f field) { setText(&d.secret, f) }

// getSecret answers GET /v1/signing and GET /v1/topics/{topic}/signing.
func (s *API) getSecret(r *request) (view, error) {
	info, err := s.Signing.Info(r.Context(), r.Param("topic"))
	return shown(writeSecrets, &info), err
}

// putSecret answers PUT /v1/signing and PUT /v1/topics/{topic}/signing: the secret is
// in force at once, alone.
func (s *API) putSecret(r *request) (view, error) {
	draft, err := readAll(r, maxSmall, secretFields)
	if err != nil {
		return nil, err
	}
	view, first, err := s.changeSecret(r, draft.secret, 0)
	r.created(first)
	return view, err
}

// rotateSecret answers POST /v1/signing/rotate and POST
// /v1/topics/{topic}/signing/rotate: the secrets of before stay in force for a while.
func (s *API) rotateSecret(r *request) (view, error) {
	draft, err := readAll(r, maxSmall, rotationFields)
	if err != nil {
		return nil, err
	}
	overlap := signing.DefaultOverlap
	if draft.overlap != nil {
		overlap = *draft.overlap
	}
	view, _, err := s.changeSecret(r, draft.secret, overlap)
	return view, err
}

// changeSecret makes a secret unless one is given. first reports that there was none
// before. Its view is the only one that shows a secret.
func (s *API) changeSecret(r *request, secret string, overlap time.Duration) (_ view, first bool, err error) {
	var change signing.Change
	if secret == "" {
		secret, change, err = s.Signing.Rotate(r.Context(), r.Param("topic"), overlap)
	} else {
		change, err = s.Signing.Set(r.Context(), r.Param("topic"), secret, overlap)
	}
	return func(w *writer) {
		w.text("secret", secret)
		writeSecrets(w, &change.Info)
	}, change.First, err
}

// deleteSecret answers DELETE /v1/topics/{topic}/signing.
func (s *API) deleteSecret(r *request) (view, error) {
	return resultOf("deleted"), s.Signing.Delete(r.Context(), r.Param("topic"))
}

// writeSecrets writes which secrets sign for a topic, without the secrets.
func writeSecrets(w *writer, info *signing.Info) {
	w.textOrNull("topic", info.Topic) // null: the default
	w.text("source", string(info.Source))
	list(w, "secrets", info.Secrets, func(w *writer, s *signing.SecretInfo) {
		w.text("id", s.ID)
		w.instant("created_at", s.CreatedAt)
		w.instant("ends_at", s.EndsAt)
	})
}
