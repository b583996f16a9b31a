package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// field is a change of a field of a hash. An empty value is no field.
type field struct {
	hash, name string
	was        string // as it was read; with a line feed at the end: how it began
	now        string
}

// How changes of fields end, as lua/fields.lua returns it.
const (
	fieldDiffers = iota // it was modified concurrently
	fieldChanged
	fieldKept // it has the new value already
)

// changeFields changes fields in one shard, each if it is as it was. Changes of limits and
// circuits make plans of carrying old.
func changeFields(ctx context.Context, run runner, script *redis.Script, sh *shard, fields []field) ([]int64, error) {
	keys, args := sh.own[script], make([]any, 1, 1+3*len(fields))
	for _, f := range fields {
		args[0] = f.hash == sh.topics || f.hash == sh.circuits
		keys, args = append(keys, f.hash), append(args, f.name, f.was, f.now)
	}
	cmd, err := run(ctx, sh, script, keys, args)
	if err != nil {
		return nil, err
	}
	done, err := cmd.Int64Slice()
	if err == nil && len(done) != len(fields) {
		err = fmt.Errorf("%d results for %d fields", len(done), len(fields))
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: change fields: %w", err)
	}
	return done, nil
}

// updateField changes one field in one shard, given its present value; empty: there is
// none.
func (s *Store) updateField(ctx context.Context, sh *shard, hash, name string, change func(was string) (string, error)) error {
	for range store.Tries(ctx) {
		was, err := s.db.HGet(ctx, hash, name).Result()
		if err != nil && !isNil(err) {
			return s.wrap(err)
		}
		now, err := change(was)
		if err != nil || now == was {
			return err
		}
		done, err := changeFields(ctx, s.run, fieldsScript, sh, []field{{hash, name, was, now}})
		if err != nil || done[0] != fieldDiffers {
			return err
		}
	}
	return store.ErrConflict
}
