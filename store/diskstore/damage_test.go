package diskstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// files are the contents of a data directory, by path.
type files map[string][]byte

// filesOf reads a data directory.
func filesOf(t *testing.T, fs vfs.FS) files {
	t.Helper()
	found := files{}
	for _, dir := range []string{"data", "data/jobs"} {
		names, err := fs.List(dir)
		if errors.Is(err, vfs.ErrUnsupported) || err != nil {
			continue
		}
		for _, name := range names {
			at := path.Join(dir, name)
			if info, err := fs.Stat(at); err == nil && !info.IsDir() {
				found[at] = content(t, fs, at)
			}
		}
	}
	return found
}

// disk writes the files to a disk of its own.
func (f files) disk(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	must.OK(t, fs.MkdirAll("data/jobs", 0o700))
	for at, text := range f {
		w, err := fs.Create(at, vfs.WriteCategoryUnspecified)
		must.OK(t, err)
		_, err = w.Write(bytes.Clone(text))
		must.OK(t, errors.Join(err, w.Close()))
	}
	return fs
}

// batches registers jobs with bodies of 2 KB, 20 at a time, and returns their keys.
func batches(t *testing.T, s *Store, from, n int) (keys []job.Key) {
	t.Helper()
	for i := from; i < from+n; i += 20 {
		var regs []store.Registration
		for j := range 20 {
			key := job.Key{Topic: "t", ID: fmt.Sprint(i + j)}
			body := make([]byte, 2000)
			_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(j)}).Read(body)
			regs = append(regs, store.Registration{Key: key, UID: "u" + key.ID, Spec: job.Spec{Destination: "http://a.example/hook", Body: body, When: job.When{Delay: 1000 * 3600e9}}})
			keys = append(keys, key)
		}
		results, err := s.Register(t.Context(), regs)
		must.OK(t, err)
		for _, r := range results {
			must.Equal(t, "outcome", r.Outcome, store.Created)
		}
	}
	return keys
}

// written is a directory with tables and logs, as a kill leaves it and as a stop does, and the jobs that it has.
func written(t *testing.T) (killed, stopped files, keys []job.Key) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	for round := range 3 {
		s, err := open(Options{FS: fs, Dir: "data"}, false)
		must.OK(t, err)
		for range 2 {
			keys = append(keys, batches(t, s, len(keys), 60)...)
			must.OK(t, s.db.Flush())
		}
		if round == 2 {
			keys = append(keys, batches(t, s, len(keys), 300)...)
			killed = filesOf(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}))
		}
		must.OK(t, s.Close())
	}
	return killed, filesOf(t, fs), keys
}

// examined opens damaged files, and says what became of it: "refused", "complete", "unavailable" or what is wrong.
func examined(t *testing.T, f files, keys []job.Key) string {
	t.Helper()
	fs := f.disk(t)
	s, err := open(Options{FS: fs, Dir: "data"}, false)
	if err != nil {
		after := filesOf(t, fs)
		for at, text := range f {
			if moved := strings.Contains(at, "jobs.") || strings.Contains(at, "marker."); !moved && !bytes.Equal(after[at], text) {
				return fmt.Sprintf("refused (%v), but %s was changed", err, at)
			}
		}
		if !strings.Contains(err.Error(), "data/jobs") || errors.Is(err, ErrInUse) {
			return fmt.Sprintf("refused without the name of a file: %v", err)
		}
		return "refused"
	}
	defer func() { _ = s.Close() }() // which says that the store failed, if it did
	for _, key := range keys {
		j, err := s.Get(t.Context(), key)
		if err == nil && j.UID == "u"+key.ID {
			continue
		}
		failure := s.Failure()
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil:
			return fmt.Sprintf("%s is lost without an error (%v)", key, err)
		case !errors.Is(err, store.ErrUnavailable):
			return fmt.Sprintf("%s cannot be read, and the error is not that of an unavailable store: %v", key, err)
		case failure == nil || s.Ping(t.Context()) == nil || !strings.Contains(failure.Error(), "data/jobs/0"):
			return fmt.Sprintf("%s cannot be read, and the store goes on: %v, %v", key, err, failure)
		}
		return "unavailable"
	}
	return "complete"
}

// damages are what may happen to one file, by a text about it.
func damages(f files, at string) map[string]files {
	text, all := f[at], map[string]files{}
	with := func(what string, change func(files)) {
		damaged := maps.Clone(f)
		change(damaged)
		all[what] = damaged
	}
	last := max(0, len(bytes.TrimRight(text, "\x00"))-1) // logs end with zeros
	places := []int{0, 3, 6, 11, 20}
	for i := range 12 {
		places = append(places, last*i/12)
	}
	for i := range 3 {
		places = append(places, last-i, last-40*i)
	}
	slices.Sort(places)
	for _, place := range slices.Compact(places) {
		if place < 0 || place >= len(text) {
			continue
		}
		with(fmt.Sprint("flip at ", place), func(d files) {
			d[at] = bytes.Clone(text)
			d[at][place] ^= 1 << (place % 8)
		})
		with(fmt.Sprint("cut at ", place), func(d files) { d[at] = text[:place] })
		with(fmt.Sprint("zeros from ", place), func(d files) {
			d[at] = append(bytes.Clone(text[:place]), make([]byte, len(text)-place)...)
		})
	}
	with("removed", func(d files) { delete(d, at) })
	for other := range f {
		if other > at && path.Base(at) != "LOCK" && path.Base(other) != "LOCK" {
			with("swapped with "+other, func(d files) { d[at], d[other] = d[other], d[at] })
		}
	}
	return all
}

// A file that is flipped, cut, removed or swapped is refused, or everything is there, or the store says which file it cannot read.
// Never is there less without an error, and a refusal changes nothing.
func TestPlainDamage(t *testing.T) {
	killed, stopped, keys := written(t)
	for how, f := range map[string]files{"killed": killed, "stopped": stopped} {
		outcomes := map[string]map[string]int{}
		must.Equal(t, "without damage", examined(t, f, keys), "complete")
		for at := range f {
			kind := strings.TrimRight(path.Base(at), "0123456789")
			kind = kind[max(0, strings.IndexByte(kind, '.')):]
			if outcomes[kind] == nil {
				outcomes[kind] = map[string]int{}
			}
			same := how == "stopped" && bytes.Equal(killed[at], f[at])
			for what, damaged := range damages(f, at) {
				if same && !strings.HasPrefix(what, "removed") && !strings.HasPrefix(what, "swapped") {
					continue // its content was damaged where the store was killed
				}
				got := examined(t, damaged, keys)
				if outcomes[kind][got]++; got != "refused" && got != "complete" && got != "unavailable" {
					t.Errorf("%s, %s %s: %s", how, at, what, got)
				}
			}
		}
		t.Logf("%s: %v", how, outcomes)
	}
}

// The call that meets a damaged table finds the store unavailable, as all later ones do.
func TestCallThatMeetsDamage(t *testing.T) {
	_, stopped, keys := written(t)
	each := func(call func(s *Store, key job.Key) error) func(*Store) error {
		return func(s *Store) error {
			for _, key := range keys {
				if err := call(s, key); err != nil {
					return err
				}
			}
			return nil
		}
	}
	calls := map[string]func(s *Store) error{
		"get":     each(func(s *Store, key job.Key) error { _, err := s.Get(t.Context(), key); return err }),
		"outlook": each(func(s *Store, key job.Key) error { _, err := s.Outlook(t.Context(), key); return err }),
		"read": each(func(s *Store, key job.Key) error {
			_, err := s.Read(t.Context(), store.ReadQuery{Keys: []job.Key{key}, Part: store.WholeJob})
			return err
		}),
		"update": each(func(s *Store, key job.Key) error {
			_, err := s.Update(t.Context(), key, func(*job.Job, job.Instant) error { return nil })
			return err
		}),
		"register": func(s *Store) error {
			var regs []store.Registration
			for _, key := range keys {
				regs = append(regs, store.Registration{Key: key, UID: "u" + key.ID, Spec: job.Spec{Destination: "http://a.example/hook"}})
			}
			_, err := s.Register(t.Context(), regs)
			return err
		},
	}
	var table string // the largest one
	for at, text := range stopped {
		if kindOf(path.Base(at)) == tableFile && len(text) > len(stopped[table]) {
			table = at
		}
	}
	for name, call := range calls {
		damaged := maps.Clone(stopped)
		damaged[table] = bytes.Clone(stopped[table])
		damaged[table][len(damaged[table])/3] ^= 4
		s, err := open(Options{FS: damaged.disk(t), Dir: "data"}, false)
		must.OK(t, err)
		if err := call(s); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close() // which says that the store failed
	}
}

// flipped opens a store on files of which one byte is different, for reading.
func flipped(t *testing.T, f files, at string, place int) (Reader, error) {
	t.Helper()
	damaged := maps.Clone(f)
	damaged[at] = bytes.Clone(f[at])
	damaged[at][place] ^= 4
	return OpenReader(Options{FS: damaged.disk(t), Dir: "data"})
}

// A reader changes nothing, counts the jobs and reads all of them: damage that a start does not meet has the name of its file.
func TestOpenReader(t *testing.T) {
	_, stopped, keys := written(t)
	fs := stopped.disk(t)
	r, err := OpenReader(Options{FS: fs, Dir: "data"})
	must.OK(t, err)
	must.Equal(t, "contents", r.Contents(), Contents{Unfinished: int64(len(keys))})
	rows, err := r.ReadAll(t.Context())
	if err != nil || rows < 3*int64(len(keys)) {
		t.Errorf("%d rows, %v", rows, err)
	}
	if _, err := OpenReader(Options{FS: fs, Dir: "data"}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second reader: %v", err)
	}
	must.OK(t, r.Close())
	for at, text := range filesOf(t, fs) {
		if !bytes.Equal(stopped[at], text) {
			t.Errorf("the reader changed %s", at)
		}
	}
	if _, err := OpenReader(Options{FS: vfs.NewMem(), Dir: "data"}); !errors.Is(err, ErrNothing) {
		t.Errorf("where nothing is: %v", err)
	}
	found := 0
	for at, text := range stopped {
		if kindOf(path.Base(at)) != tableFile {
			continue
		}
		for place := 1; place < len(text); place += len(text)/7 + 1 {
			r, err := flipped(t, stopped, at, place)
			if err == nil {
				if _, err = r.ReadAll(t.Context()); err != nil {
					found++
				}
				_ = r.Close()
			}
			if err == nil || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("%s with a flip at %d: %v", at, place, err)
			}
		}
	}
	if found == 0 {
		t.Error("each flip was met by the start")
	}
}

// After a loss of power, too, damage in what was acknowledged more than syncedLook before is refused.
func TestDamageAndLossOfPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		s := opened(t, Options{FS: fs, Dir: "data"})
		keys := batches(t, s, 0, 80)
		must.OK(t, job.Sleep(t.Context(), job.SystemClock(), syncedLook))
		batches(t, s, 80, 20)
		f := filesOf(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		must.Equal(t, "without damage", examined(t, f, keys), "complete")
		for _, place := range []int{30, 100_000, 160_000} {
			for at, text := range f {
				if kindOf(path.Base(at)) == logFile {
					d := maps.Clone(f)
					d[at] = bytes.Clone(text)
					d[at][place]++
					must.Equal(t, fmt.Sprint("with a flip at ", place), examined(t, d, keys), "refused")
				}
			}
		}
	})
}

// A backup has an inventory of its own.
func TestDamagedBackup(t *testing.T) {
	fs := vfs.NewMem()
	s := opened(t, Options{FS: fs, Dir: "from"})
	keys := batches(t, s, 0, 40)
	must.OK(t, s.db.Flush())
	keys = append(keys, batches(t, s, 40, 40)...)
	must.OK(t, s.Backup(t.Context(), "data"))
	f := filesOf(t, fs)
	must.Equal(t, "without damage", examined(t, f, keys), "complete")
	kinds := map[fileKind]bool{}
	for at, text := range f {
		if kind := kindOf(path.Base(at)); kind != otherFile {
			kinds[kind] = true
			d := maps.Clone(f)
			d[at] = bytes.Clone(text)
			d[at][min(len(text)/2, 60_000)] ^= 8
			if got := examined(t, d, keys); got != "refused" && got != "unavailable" {
				t.Errorf("%s with a flip: %s", at, got)
			}
		}
	}
	must.Equal(t, "kinds of files", len(kinds), 3)
}

// A directory whose inventory was moved away gets another one, unless it is not whole.
func TestAdopt(t *testing.T) {
	_, f, keys := written(t)
	delete(f, "data/"+inventoryFile)
	delete(f, "data/"+syncedFile)
	must.Equal(t, "without an inventory", examined(t, f, keys), "complete")
	for at, text := range f {
		base := path.Base(at)
		switch {
		case strings.HasPrefix(base, "marker.manifest"):
			d := maps.Clone(f)
			delete(d, at)
			must.Equal(t, "without a marker", examined(t, d, keys), "refused")
		case kindOf(base) == manifestFile:
			for _, cut := range []int{len(text) - 1, len(text) / 2, 9} {
				d := maps.Clone(f)
				if d[at] = text[:cut]; examined(t, d, keys) != "refused" && strings.HasSuffix(markerOf(f), base) {
					t.Errorf("%s of %d bytes, cut at %d, is accepted", at, len(text), cut)
				}
			}
		}
	}
	fs := f.disk(t)
	must.OK(t, opened(t, Options{FS: fs, Dir: "data"}).Close())
	after := filesOf(t, fs)
	if !strings.Contains(string(after["data/"+inventoryFile]), strconv.Quote(form)) {
		t.Errorf("the inventory is %s", after["data/"+inventoryFile])
	}
}

func markerOf(f files) string {
	for at := range f {
		if strings.HasPrefix(path.Base(at), "marker.manifest") {
			return at
		}
	}
	return ""
}
