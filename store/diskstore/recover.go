package diskstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/duehook/duehook/internal/job"
)

// form is the form of the rows. Each incompatible change raises its number.
const form = "duehook 1"

// errNewer is the error for rows of another form.
var errNewer = errors.New("the data was written by another version of duehook, and was left as it is: start that version, or name another directory")

// recover reads what is kept in memory: the counts, the first job of each lane, and the
// jobs that were running.
func (s *Store) recover() error {
	t := s.begin(job.InstantOf(s.clock.Now()))
	if err := s.checkForm(); err != nil {
		return err
	}
	steps := []func(*txn) error{s.recoverMeta, s.recoverLanes, s.recoverTopics, s.recoverDead, s.recoverClaims}
	for _, step := range steps {
		if err := errors.Join(step(t), t.err); err != nil {
			return err
		}
	}
	s.lanes.Scan(func(_ string, l *lane) bool { t.look(l); return true })
	if len(t.rows.changes) > 0 {
		return errors.Join(t.err, errLost) // nothing here writes
	}
	return t.err
}

// checkForm refuses rows of another form, and writes the form into a new store. Only an empty one is new.
func (s *Store) checkForm() error {
	stored, err := get(s.db, rowForm)
	if err != nil {
		return err
	}
	if stored == nil {
		empty := s.files == nil || s.files.inv.form == ""
		err := scan(s.db, nil, nil, func(_, _ []byte) bool { empty = false; return false })
		if err != nil || !empty {
			return errors.Join(err, errLost)
		}
	} else if string(stored) != form {
		return fmt.Errorf("%w (its form is %q)", errNewer, stored)
	}
	if s.readOnly {
		return nil
	}
	if stored == nil {
		err = s.db.Set(rowForm, []byte(form), pebble.Sync)
	}
	if err == nil && s.files != nil && s.files.inv.form != form {
		err = s.files.alter(func() { s.files.inv.form = form })
	}
	return err
}

// recoverMeta reads the figures, and takes new places.
func (s *Store) recoverMeta(t *txn) error {
	in := reader{b: t.get(rowSeq)}
	s.meta.seq = in.uint() + seqStep
	var w writer
	w.uint(s.meta.seq)
	if !s.readOnly {
		if err := s.db.Set(rowSeq, w.b, pebble.Sync); err != nil {
			return err
		}
	}
	if turns := t.get(rowTurn); turns != nil {
		in := reader{b: turns}
		s.meta.orderKeys, s.meta.behind = int64(in.uint()), int64(in.uint())
		return in.err
	}
	return nil
}

// each visits the rows of a family that have a name and a few numbers.
func (s *Store) each(family byte, n int, visit func(name string, numbers []int64) error) error {
	var failed error
	err := scan(s.db, []byte{family}, []byte{family + 1}, func(key, value []byte) bool {
		in, numbers := reader{b: value}, make([]int64, n)
		for i := range numbers {
			numbers[i] = int64(in.uint())
		}
		failed = errors.Join(in.err, visit(string(key[1:]), numbers))
		return failed == nil
	})
	return errors.Join(err, failed)
}

func (s *Store) recoverLanes(t *txn) error {
	return s.each(famLaneCounts, 3, func(name string, n []int64) error {
		parsed, err := job.ParseLane(name)
		if err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		l := s.laneOf(parsed)
		l.rows, l.parked = [2]int64{n[0], n[1]}, n[2]
		for state, held := range l.rows {
			t.count(l.Topic, l, job.State(state), held)
		}
		return nil
	})
}

func (s *Store) recoverTopics(t *txn) error {
	return s.each(famTopicCounts, len(counts{})-int(job.Delivered), func(name string, n []int64) error {
		for i, held := range n {
			t.count(name, nil, job.Delivered+job.State(i), held)
		}
		return nil
	})
}

func (s *Store) recoverDead(*txn) error {
	return s.each(famGroupCount, 1, func(name string, n []int64) error {
		s.dead.Set(name, n[0])
		return nil
	})
}

// recoverClaims puts the jobs that were running into flight again. Their leases have
// expired: nobody holds them any more. Jobs with a consumer wait again: the restart is no fault
// of theirs, and each claim has a token of its own.
func (s *Store) recoverClaims(t *txn) error {
	var keys, claims [][]byte
	err := scan(s.db, []byte{famClaim}, []byte{famClaim + 1}, func(key, value []byte) bool {
		keys, claims = append(keys, bytes.Clone(key)), append(claims, bytes.Clone(value))
		return true
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		rec := t.loadPlace(parsePlace(key[1:]))
		if rec == nil {
			return errors.Join(t.err, errLost)
		}
		l := s.laneOf(rec.lane)
		known := &flight{lane: l}
		if err := known.readClaim(claims[i]); err != nil {
			return err
		}
		if known.withConsumer() && !rec.CancelRequested {
			if s.readOnly {
				continue
			}
			if err := s.db.Delete(key, pebble.NoSync); err != nil {
				return err
			}
			continue
		}
		f := t.launch(l, entryOf(rec), t.now)
		if err := f.readClaim(claims[i]); err != nil {
			return err
		}
	}
	return t.err
}
