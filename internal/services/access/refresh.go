package access

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
)

// A change to a stored key is known here within Freshness: a reading that just
// missed it may take listTimeout, then comes a pause, then the next reading.
const (
	Freshness    = 10 * time.Second
	refreshPause = 4 * time.Second
	listTimeout  = 3 * time.Second
)

// Run reads the stored keys again and again until ctx ends. When that fails,
// the keys read before stay in use.
func (k *Keyring) Run(ctx context.Context) error {
	if k.opts.Store == nil {
		<-ctx.Done()
		return nil
	}
	_ = k.refresh(ctx) // has been logged, here and below
	for job.Sleep(ctx, k.opts.Clock, refreshPause) == nil {
		_ = k.refresh(ctx)
	}
	return nil
}

// refresh reads the stored keys.
func (k *Keyring) refresh(ctx context.Context) error {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	docs, err := k.docs.All(listing)
	if err == nil {
		k.adopt(docs)
	}
	k.report(ctx, err)
	return err
}

// adopt puts the stored keys in the place of those read before.
func (k *Keyring) adopt(docs []documents.Document[record]) {
	before := k.current.Load().byID
	next := &keySet{byID: maps.Clone(k.fixed), complete: true}
	for i := range docs {
		d := &docs[i]
		if k.fixed[d.Name] != nil {
			continue // the settings of this server have the last word
		}
		e := before[d.Name]
		if e == nil || e.version != d.Version {
			e = k.readEntry(d)
		}
		next.byID[d.Name] = e // with its limiter, if it was there before
	}
	k.current.Store(next)
}

func (k *Keyring) readEntry(d *documents.Document[record]) *entry {
	key, err := keyOf(d)
	if err != nil {
		k.opts.Logger.Error("stored API key cannot be read and is not valid", "key_id", d.Name, "error", err)
		return &entry{key: Key{ID: d.Name, Stored: true}, version: d.Version, unusable: true}
	}
	return k.newEntry(key, d.Version)
}

// report logs when reading begins to fail and when it succeeds again. It is
// called with refreshing held.
func (k *Keyring) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // whoever asked does not want to know any more
	case err != nil && !k.failing:
		k.failing = true
		k.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "stored API keys cannot be read; those read before stay valid, revoked ones too",
			slog.String("error", err.Error()))
	case err == nil && k.failing:
		k.failing = false
		k.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "stored API keys can be read again")
	}
}

// forget makes a key invalid here at once.
func (k *Keyring) forget(id string) {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	old := k.current.Load()
	next := &keySet{byID: maps.Clone(old.byID), complete: old.complete}
	delete(next.byID, id)
	k.current.Store(next)
}
