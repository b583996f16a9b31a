package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const outOfMemory = "OOM" // prefix of the errors of a full Redis

// refuses reports whether Redis refused to run a script that writes: its memory is full, it
// cannot write its file, or it lacks required replicas.
func refuses(err error) bool {
	for _, prefix := range []string{outOfMemory, "MISCONF", "NOREPLICAS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// refused sets the verdicts on jobs that Redis refused with cause. It checks which jobs are
// there, because an earlier try of the client library may have stored them and lost the reply.
func (s *Store) refused(ctx context.Context, sh *shard, batch []*arrival, cause error) error {
	var keys []job.Key
	for _, a := range batch {
		for i := range a.jobs {
			keys = append(keys, a.jobs[i].key)
		}
	}
	there, err := s.readAll(ctx, sh, keys)
	if err != nil {
		return err
	}
	for _, a := range batch {
		a.verdicts = make([]verdict, len(a.jobs))
		for i := range a.jobs {
			by := there[i]
			switch {
			case by.missing():
				a.verdicts[i] = verdict{refused: store.StoreFull}
			case s.confirm != nil:
				return cause // whether replicas have it, too, is not known
			default:
				a.verdicts[i].by = by
			}
		}
		there = there[len(a.jobs):]
	}
	return nil
}

// refusedOver is the result of a registration over the record w that Redis refused with
// cause.
func (s *Store) refusedOver(ctx context.Context, sh *shard, reg store.Registration, w raw, cause error) (store.Registered, error) {
	current, _, err := s.read(ctx, sh, reg.Key)
	switch {
	case err != nil:
		return store.Registered{}, err
	case current != w: // an earlier try may have put it there
		return store.Registered{}, cause
	}
	return store.Registered{Outcome: store.StoreFull}, nil
}
