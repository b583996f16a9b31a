package diskstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duehook/duehook/internal/job"
)

// witnessFS is the file system of the engine. It keeps the inventory of the engine's directory: written before
// the engine may depend on a file, and before it deletes one that the inventory names.
type witnessFS struct {
	*patientFS
	data, dir string // the data directory, and the engine's
	synced    syncedLog

	mu    sync.Mutex
	inv   inventory
	gone  map[string]bool // tables that were removed since the inventory was written
	later []string        // what the engine has deleted while the store is not open yet: it stays until then
	open  bool
	fresh bool // no inventory is written yet
	perms perms
}

// inside returns the name of a file of the engine's directory.
func (w *witnessFS) inside(path string) (name string, kind fileKind) {
	if name = w.PathBase(path); w.PathDir(path) != w.dir {
		return name, otherFile
	}
	return name, kindOf(name)
}

func (w *witnessFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	name, kind := w.inside(path)
	if err := w.before(name, kind, ""); err != nil {
		return nil, err
	}
	f, err := w.patientFS.Create(path, c)
	if err != nil {
		return nil, err
	}
	if err := w.perms.close(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w.watch(f, name, kind), nil
}

func (w *witnessFS) ReuseForWrite(before, path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	name, kind := w.inside(path)
	if err := w.before(name, kind, w.PathBase(before)); err != nil {
		return nil, err
	}
	f, err := w.patientFS.ReuseForWrite(before, path, c)
	if err != nil {
		return nil, err
	}
	return w.watch(f, name, kind), nil
}

func (w *witnessFS) Remove(path string) error {
	name, kind := w.inside(path)
	if w.putOff(path) {
		return nil
	}
	if kind == logFile {
		if err := w.alter(func() { delete(w.inv.files, name) }); err != nil {
			return err
		}
	}
	err := w.patientFS.Remove(path)
	if err == nil && kind != otherFile {
		w.mu.Lock()
		w.gone[name] = true
		w.mu.Unlock()
	}
	return err
}

// putOff keeps a file until the store is open: what the engine reads may be damaged.
func (w *witnessFS) putOff(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.PathDir(path) != w.dir {
		return false
	}
	if !w.open {
		w.later = append(w.later, path)
	}
	return !w.open
}

// opened deletes what was put off.
func (w *witnessFS) opened() error {
	w.mu.Lock()
	later := w.later
	w.open, w.later = true, nil
	w.mu.Unlock()
	for _, path := range later {
		if err := w.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// before notes that a file will be made, from another one if that has a name.
func (w *witnessFS) before(name string, kind fileKind, reused string) error {
	w.mu.Lock()
	_, known := w.inv.files[name] // a table whose number is given again
	w.mu.Unlock()
	if kind == otherFile || kind != logFile && !known {
		return nil
	}
	return w.alter(func() {
		delete(w.inv.files, reused)
		delete(w.inv.files, name)
		if kind == logFile {
			w.inv.files[name] = trace{}
		}
	})
}

func (w *witnessFS) watch(f vfs.File, name string, kind fileKind) vfs.File {
	if kind == otherFile {
		return f
	}
	return &witnessed{File: f, w: w, name: name, kind: kind}
}

// set changes the trace of a file, which the next alter writes.
func (w *witnessFS) set(name string, e trace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inv.files[name] = e
	delete(w.gone, name)
}

// alter changes the inventory, and writes it.
func (w *witnessFS) alter(change func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.gone {
		delete(w.inv.files, name)
	}
	clear(w.gone)
	change()
	if name, e := w.synced.last(); name != "" {
		if _, listed := w.inv.files[name]; listed {
			w.inv.files[name] = e
		}
	}
	return writeInventory(w.patientFS, w.data, &w.inv, w.perms)
}

// now returns what is known of the files.
func (w *witnessFS) now() map[string]trace {
	w.mu.Lock()
	defer w.mu.Unlock()
	files := maps.Clone(w.inv.files)
	if name, e := w.synced.last(); name != "" {
		files[name] = e
	}
	return files
}

// writeInventory replaces the inventory of a data directory.
func writeInventory(disk vfs.FS, data string, inv *inventory, p perms) error {
	path := disk.PathJoin(data, inventoryFile)
	fresh := path + ".new"
	f, err := disk.Create(fresh, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(inv.text())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = p.close(fresh)
	}
	if err == nil {
		err = disk.Rename(fresh, path)
	}
	if err == nil {
		err = syncDir(disk, data)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// witnessed is a file that the engine writes from its beginning to its end.
type witnessed struct {
	vfs.File
	w    *witnessFS
	name string
	kind fileKind
	trace
	tail []byte // of a table
}

func (f *witnessed) Write(p []byte) (int, error) {
	if f.kind == tableFile {
		if f.tail = append(f.tail, p...); len(f.tail) > 2*tailSize {
			f.tail = append(f.tail[:0], f.tail[len(f.tail)-tailSize:]...)
		}
	} else {
		f.sum = crc32.Update(f.sum, castagnoli, p) // before a file system may alter p
	}
	n, err := f.File.Write(p)
	f.size += int64(n)
	return n, err
}

func (f *witnessed) Sync() error     { return f.sync(f.File.Sync) }
func (f *witnessed) SyncData() error { return f.sync(f.File.SyncData) }

func (f *witnessed) sync(sync func() error) error {
	if err := sync(); err != nil {
		return err
	}
	switch f.kind {
	case logFile:
		return f.w.synced.note(f.name, f.trace)
	case manifestFile:
		return f.w.alter(func() { f.w.inv.files[f.name] = f.trace })
	}
	return nil
}

func (f *witnessed) Close() error {
	if err := f.File.Close(); err != nil {
		return err
	}
	if f.kind == tableFile {
		f.sum = crc32.Checksum(f.tail[max(0, len(f.tail)-tailSize):], castagnoli)
		f.w.set(f.name, f.trace)
	}
	return nil
}

// syncedLog is a file that says how much of the last log is on the disk. It is written after each sync of the log, but
// synced itself once per syncedLook: what it says was true when it was written. It has two slots, so that one is whole.
type syncedLog struct {
	clock job.Clock

	mu    sync.Mutex
	id    uint64   // of the inventory
	file  vfs.File // nil: there is none
	turn  uint64   // slots written
	name  string   // of the log
	trace trace
	at    time.Time // when the file was synced; zero for a new log
}

const (
	slotSize   = 40
	slotStep   = 4096 // the slots share no sector
	syncedLook = time.Second
)

func (s *syncedLog) last() (string, trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.trace
}

// note notes that a log is on the disk.
func (s *syncedLog) note(name string, e trace) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != name {
		s.at = time.Time{}
	}
	s.name, s.trace = name, e
	if s.file == nil {
		return nil
	}
	s.turn++
	if _, err := s.file.WriteAt(slot(s.id, s.turn, name, e), int64(s.turn%2)*slotStep); err != nil {
		return fmt.Errorf("write %s: %w", syncedFile, err)
	}
	now := s.clock.Now()
	if since := now.Sub(s.at); since >= 0 && since < syncedLook {
		return nil
	}
	s.at = now
	return s.file.SyncData()
}

func slot(id, turn uint64, name string, e trace) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, slotSize), id)
	b = binary.BigEndian.AppendUint64(b, turn)
	b = binary.BigEndian.AppendUint64(b, logNumber(name))
	b = binary.BigEndian.AppendUint64(b, uint64(e.size))
	b = binary.BigEndian.AppendUint32(b, e.sum)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// read adds what the slots say of the logs of an inventory, if it is more than the inventory says.
func (s *syncedLog) read(disk vfs.FS, path string, inv *inventory) error {
	text, err := readFile(disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if len(text) == 0 || err != nil {
		return err // a start was cut off
	}
	found := false
	for ; len(text) >= slotSize; text = text[min(slotStep, len(text)):] {
		b := text[:slotSize]
		if binary.BigEndian.Uint32(b[slotSize-4:]) != crc32.Checksum(b[:slotSize-4], castagnoli) {
			continue
		}
		found = true
		s.turn = max(s.turn, binary.BigEndian.Uint64(b[8:]))
		if binary.BigEndian.Uint64(b) != inv.id {
			continue
		}
		name := fmt.Sprintf("%06d.log", binary.BigEndian.Uint64(b[16:]))
		e := trace{int64(binary.BigEndian.Uint64(b[24:])), binary.BigEndian.Uint32(b[32:])}
		if known, listed := inv.files[name]; listed && known.size < e.size {
			inv.files[name] = e
		}
	}
	if !found {
		return damagedNote(path)
	}
	return nil
}

// open opens the file for writing.
func (s *syncedLog) open(disk vfs.FS, path string, p perms) error {
	f, err := disk.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	s.file = f
	info, err := f.Stat()
	if err == nil && info.Size() < slotStep+slotSize {
		b := make([]byte, slotStep+slotSize)
		copy(b, slot(s.id, s.turn, "", trace{}))
		_, err = f.WriteAt(b, 0)
		err = errors.Join(err, p.close(path))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(disk, disk.PathDir(path))
	}
	return err
}

// close syncs and closes the file.
func (s *syncedLog) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return errors.Join(f.Sync(), f.Close())
}

// check looks whether the engine may open its directory. It changes nothing but what is in memory.
func (w *witnessFS) check() error {
	inv, err := readInventory(w.patientFS, w.PathJoin(w.data, inventoryFile))
	if err != nil {
		return err
	}
	if inv != nil && inv.form != "" && inv.form != form {
		return fmt.Errorf("%w (its form is %q)", errNewer, inv.form)
	}
	if w.fresh = inv == nil || inv.form == ""; w.fresh {
		inv, err = adopt(w.patientFS, w.dir)
	} else if err = w.synced.read(w.patientFS, w.PathJoin(w.data, syncedFile), inv); err == nil {
		err = inv.verify(w.patientFS, w.dir)
	}
	if err != nil {
		return err
	}
	w.inv, w.synced.id = *inv, inv.id
	return nil
}

// begin makes the directory writable for the engine, after a check.
func (w *witnessFS) begin() error {
	if w.fresh {
		if err := w.alter(func() {}); err != nil {
			return err
		}
	}
	return w.synced.open(w.patientFS, w.PathJoin(w.data, syncedFile), w.perms)
}

// end writes the last state, once the engine is closed.
func (w *witnessFS) end() (err error) {
	if w.open {
		err = w.alter(func() {})
	}
	return errors.Join(err, w.synced.close())
}
