package access

import (
	"context"
	"maps"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/outage"
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
	reads := outage.New("reading stored API keys; known ones stay valid, revoked ones too", k.opts.Clock, k.opts.Logger, nil)
	reads.Repeat(ctx, outage.Task{Every: refreshPause, Do: k.refresh})
	return nil
}

// refresh reads the stored keys.
func (k *Keyring) refresh(ctx context.Context) error {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	docs, err := k.docs.All(ctx)
	if err == nil {
		k.adopt(docs)
	}
	return err
}

// adopt replaces the stored keys read before.
func (k *Keyring) adopt(docs []documents.Document[Key]) {
	before := k.current.Load().byID
	next := &keySet{byID: maps.Clone(k.fixed), complete: true}
	for i := range docs {
		d := &docs[i]
		if k.fixed[d.Name] != nil {
			continue // the settings of this node take precedence
		}
		e := before[d.Name]
		if e == nil || e.version != d.Version {
			e = k.readEntry(d)
		}
		next.byID[d.Name] = e // unchanged keys keep their limiter
	}
	k.current.Store(next)
}

func (k *Keyring) readEntry(d *documents.Document[Key]) *entry {
	if d.Err != nil { // which could show a digest
		k.opts.Logger.Error("a stored API key is not valid: it is damaged or of a newer version", "key_id", d.Name)
		return &entry{key: Key{ID: d.Name, Stored: true}, version: d.Version, unusable: true}
	}
	return k.newEntry(d.Value, d.Version)
}

// replace makes a key valid on this node at once, or with nil invalid.
func (k *Keyring) replace(id string, e *entry) {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	old := k.current.Load()
	next := &keySet{byID: maps.Clone(old.byID), complete: old.complete}
	if next.byID[id] = e; e == nil {
		delete(next.byID, id)
	}
	k.current.Store(next)
}
