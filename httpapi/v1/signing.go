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

const (
	// defaultOverlap is how long a replaced secret still signs, unless the request says
	// otherwise.
	defaultOverlap = 24 * time.Hour
)

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
func (s *API) getSecret(r *request) (any, error) {
	info, err := s.Signing.Info(r.Context(), r.topic)
	return viewSecrets(&info), err
}

// putSecret answers PUT /v1/signing and PUT /v1/topics/{topic}/signing: the secret is
// in force at once, alone.
func (s *API) putSecret(r *request) (any, error) {
	draft, err := readAll(r, maxSmall, secretFields)
	if err != nil {
		return nil, err
	}
	view, first, err := s.changeSecret(r, draft.secret, 0)
	return created(view, first), err
}

// rotateSecret answers POST /v1/signing/rotate and POST
// /v1/topics/{topic}/signing/rotate: the secrets of before stay in force for a while.
func (s *API) rotateSecret(r *request) (any, error) {
	draft, err := readAll(r, maxSmall, rotationFields)
	if err != nil {
		return nil, err
	}
	overlap := defaultOverlap
	if draft.overlap != nil {
		overlap = *draft.overlap
	}
	view, _, err := s.changeSecret(r, draft.secret, overlap)
	return view, err
}

// changeSecret makes a secret unless one is given. first reports that there was none
// before.
func (s *API) changeSecret(r *request, secret string, overlap time.Duration) (_ *newSecretView, first bool, err error) {
	var change signing.Change
	if secret == "" {
		secret, change, err = s.Signing.Rotate(r.Context(), r.topic, overlap)
	} else {
		change, err = s.Signing.Set(r.Context(), r.topic, secret, overlap)
	}
	return &newSecretView{Secret: secret, secretsView: viewSecrets(&change.Info)}, change.First, err
}

// deleteSecret answers DELETE /v1/topics/{topic}/signing.
func (s *API) deleteSecret(r *request) (any, error) {
	return resultOf("deleted"), s.Signing.Delete(r.Context(), r.topic)
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

func viewSecrets(info *signing.Info) secretsView {
	v := secretsView{Topic: orNull(&info.Topic), Source: string(info.Source), Secrets: make([]secretView, len(info.Secrets))}
	for i, s := range info.Secrets {
		v.Secrets[i] = secretView{ID: s.ID, CreatedAt: instant(s.CreatedAt), EndsAt: instant(s.EndsAt)}
	}
	return v
}
