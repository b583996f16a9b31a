package redisstore

import (
	"context"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Bounds on reading the times of jobs in one script, for which Redis handles whole records.
const (
	timesRecords = 500
	timesBytes   = 1 << 20 // but for its last record
)

// times reads the times of the first jobs.
func (s *Store) times(ctx context.Context, sh *shard, keys []job.Key) (r store.Records, err error) {
	keys = keys[:min(len(keys), timesRecords)]
	heads, _, err := s.readRaw(ctx, sh, keys, timesBytes, headsOnly)
	if err != nil {
		return r, err
	}
	for _, w := range heads {
		r.Times = append(r.Times, timesOf(w))
		r.Bytes += len(w.registration) + len(w.progress)
	}
	if len(heads) < len(keys) {
		r.Bytes = timesBytes // the script ended because of them
	}
	return r, nil
}

// timesOf reads the heads of a record; zero for one that cannot be read.
func timesOf(w raw) store.Times {
	h, err := decodeRegisteredHead(w.registration)
	if err != nil {
		return store.Times{}
	}
	due := job.Instant(h.created + h.due)
	r := record{Job: job.Job{CreatedAt: job.Instant(h.created), DueAt: due, NextAt: due}}
	if h.expires != never {
		r.ExpiresAt = job.Instant(h.created + h.expires)
	}
	if w.progress != "" {
		if err := r.proceed(decodeProgressHead(w.progress)); err != nil {
			return store.Times{}
		}
	}
	return store.TimesOf(&r.Job)
}
