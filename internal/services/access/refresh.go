package access

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
)

// A node knows a change of a stored key within Freshness: at most a read that just missed
// it (listTimeout), a pause, and the next read.
const (
	Freshness    = 10 * time.Second
	refreshPause = 4 * time.Second
	listTimeout  = 3 * time.Second
)

// Run reads the stored keys at intervals until ctx ends. While they are unreadable, the
// keys read before stay in use.
func (k *Keyring) Run(ctx context.Context) error {
	if k.opts.Store == nil {
		<-ctx.Done()
		return nil
	}
	return k.stored.Run(ctx, documents.Following{
		What:  "reading stored API keys; known ones stay valid, revoked ones too",
		Every: refreshPause, Limit: listTimeout, Clock: k.opts.Clock, Logger: k.opts.Logger,
	})
}

// refresh reads the stored keys.
func (k *Keyring) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return k.stored.Refresh(ctx)
}

// know makes the entry of a stored key. An unchanged key keeps its limiter.
func (k *Keyring) know(d *documents.Document[Key], _ *entry) *entry {
	if d.Err != nil { // which could show a digest
		k.opts.Logger.Error("a stored API key is not valid: it is damaged or of a newer version", "key_id", d.Name)
		return &entry{key: Key{ID: d.Name, Stored: true}, unusable: true}
	}
	return k.newEntry(d.Value)
}
