package v1

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/nodes"
)

// Access manages the API keys. An *access.Keys does.
type Access interface {
	Create(ctx context.Context, d access.Draft) (access.Token, access.Key, error)
	List(ctx context.Context) ([]access.Key, error)
	Key(ctx context.Context, id string) (access.Key, error)
	State(k *access.Key) access.State
	Revoke(ctx context.Context, id string, allow ...documents.Allow) error
}

// Options are the services behind the calls of v1. Only App is required; calls of
// another service that is missing fail.
type Options struct {
	App        *app.App // jobs, topics and endpoints
	Operations Operations
	Schedules  Schedules
	Groups     *groups.Manager
	Pulls      Pulls
	Alerts     Alerts
	Inboxes    Inboxes
	Events     Events
	Nodes      *nodes.Registry
	// Access manages the API keys; nil: the server has no keys.
	Access Access
	// Signing manages the signing secrets; nil: deliveries are not signed.
	Signing Signing
	// MaxBatchBytes bounds the request of a batch registration; zero means
	// 16 MiB.
	MaxBatchBytes int64
	// TestTimeout bounds a test of an endpoint; zero means 8 s.
	TestTimeout time.Duration
}

// API is version 1 of the HTTP API.
type API struct {
	Options
}

// New builds the API as a dialect of a server.
func New(o Options) (httpapi.Dialect, error) {
	s, err := build(o)
	if err != nil {
		return httpapi.Dialect{}, err
	}
	return s.dialect(), nil
}

func build(o Options) (*API, error) {
	if o.App == nil {
		return nil, errors.New("httpapi/v1: Options.App is missing")
	}
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 16<<20)
	o.TestTimeout = cmp.Or(o.TestTimeout, 8*time.Second)
	return &API{Options: o}, nil
}
