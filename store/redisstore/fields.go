package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// field is a change of a field of a hash. An empty value is no field.
type field struct {
	hash, name string
	was        string // as it was read; with a line feed at the end: how it began
	now        string
}

// How changes of fields end, as lua/fields.lua returns it.
const (
	fieldDiffers = iota // somebody else changed it
	fieldChanged
	fieldKept // it has the new value already
)

// changeFields changes fields in one shard, each if it is as it was.
func changeFields(ctx context.Context, run runner, script *redis.Script, sh *shard, fields []field) ([]int64, error) {
	keys, args := make([]string, len(fields)), make([]any, 0, 3*len(fields))
	for i, f := range fields {
		keys[i], args = f.hash, append(args, f.name, f.was, f.now)
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
