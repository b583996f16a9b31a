package v1

import (
	"context"
	"time"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/signing"
)

// Signing is the part of the signing secrets that the API needs. Those of the
// topic "" are the default. *signing.Secrets are one.
type Signing interface {
	Info(ctx context.Context, topic string) (signing.Info, error)
	Replace(ctx context.Context, topic, secret string, overlap time.Duration, allow ...documents.Allow) (signing.Change, error)
	Delete(ctx context.Context, topic string, allow ...documents.Allow) error
}

// secretDraft is a secret as a client asks for it.
type secretDraft struct {
	secret  string // empty: one is made
	overlap *time.Duration
}

var (
	secretFields   = decode.NewFieldSet(map[string]func(*secretDraft, decode.Field){"secret": setSecret})
	rotationFields = decode.NewFieldSet(map[string]func(*secretDraft, decode.Field){"secret": setSecret, "overlap": func(d *secretDraft, f decode.Field) { d.overlap = f.Duration() }})
)

func setSecret(d *secretDraft, f decode.Field) { decode.SetText(&d.secret, f) }

// getSecret answers GET /v1/signing and GET /v1/topics/{topic}/signing.
func (s *API) getSecret(r *request) (jsonio.View, error) {
	info, err := s.Signing.Info(r.Context(), r.Param("topic"))
	if err != nil {
		return nil, err
	}
	r.setVersion(info.Version)
	return jsonio.Shown(writeSecrets, &info), nil
}

// putSecret answers PUT /v1/signing and PUT /v1/topics/{topic}/signing: the secret is
// in force at once, alone.
func (s *API) putSecret(r *request) (jsonio.View, error) {
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
func (s *API) rotateSecret(r *request) (jsonio.View, error) {
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
func (s *API) changeSecret(r *request, secret string, overlap time.Duration) (_ jsonio.View, first bool, err error) {
	change, err := s.Signing.Replace(r.Context(), r.Param("topic"), secret, overlap, r.allow()...)
	if err != nil {
		return nil, false, err
	}
	r.setVersion(change.Version)
	return func(w *jsonio.Writer) {
		w.Text("secret", change.Secret)
		writeSecrets(w, &change.Info)
	}, change.First, nil
}

// deleteSecret answers DELETE /v1/topics/{topic}/signing.
func (s *API) deleteSecret(r *request) (jsonio.View, error) {
	return resultOf("deleted"), s.Signing.Delete(r.Context(), r.Param("topic"), r.allow()...)
}

// writeSecrets writes which secrets sign for a topic, without the secrets.
func writeSecrets(w *jsonio.Writer, info *signing.Info) {
	w.TextOrNull("topic", info.Topic) // null: the default
	w.Text("source", string(info.Source))
	writeStamp(w, &info.Stamp)
	jsonio.List(w, "secrets", info.Secrets, func(w *jsonio.Writer, s *signing.SecretInfo) {
		w.Text("id", s.ID)
		w.Instant("created_at", s.CreatedAt)
		w.Instant("ends_at", s.EndsAt)
	})
}
