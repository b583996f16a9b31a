package redisstore

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds on reading the times of jobs in one script, for which Redis handles whole records.
const (
	timesRecords = 500
	timesBytes   = 1 << 20 // but for its last record
)

// Times reads the times of the jobs of the first entries.
func (s source) Times(ctx context.Context, seg listing.Segment, entries []listing.Entry) (times []store.Times, bytes int, err error) {
	keys, err := keysOf(seg, entries[:min(len(entries), timesRecords)])
	if err != nil {
		return nil, 0, err
	}
	heads, _, err := s.readRaw(ctx, s.shards[seg.Shard], keys, timesBytes, headsOnly)
	if err != nil {
		return nil, 0, err
	}
	for _, w := range heads {
		times = append(times, timesOf(w))
		bytes += len(w.registration) + len(w.progress)
	}
	if len(heads) < len(keys) {
		bytes = timesBytes // the script ended because of them
	}
	return times, bytes, nil
}

// timesOf reads the heads of a record; zero for one that cannot be read.
func timesOf(w raw) store.Times {
	h, err := decodeRegisteredHead(w.registration)
	if err != nil {
		return store.Times{}
	}
	due := job.Instant(h.created + h.due)
	r := record{Job: job.Job{CreatedAt: job.Instant(h.created), DueAt: due, NextAt: due}}
	if w.progress != "" {
		if err := r.proceed(decodeProgressHead(w.progress)); err != nil {
			return store.Times{}
		}
	}
	return store.TimesOf(&r.Job)
}
