package diskstore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	records "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Files in the data directory, beside the directory of the engine.
const (
	inventoryFile = "jobs.files"
	syncedFile    = "jobs.synced"
)

// ErrNothing means that a directory has no jobs, and never had any.
var ErrNothing = errors.New("there are no jobs")

// inventoryForm begins the inventory.
const inventoryForm = "duehook-files-1"

// tailSize is how many bytes of a table its checksum covers, from the end: the index, the properties and
// the footer. Two tables differ there. The engine checks the blocks as it reads them.
const tailSize = 16 << 10

// DamageError says which file of the jobs is not what was written.
type DamageError struct {
	Path string
	What string
}

func (e *DamageError) Error() string { return e.Path + " " + e.What }

// trace is what is known of a file of the engine: that it has size bytes or more, and the checksum of the
// first size bytes; of a table, of its end.
type trace struct {
	size int64
	sum  uint32
}

// fileKind is what a file of the engine is for.
type fileKind int

const (
	otherFile fileKind = iota
	manifestFile
	logFile
	tableFile
)

func kindOf(name string) fileKind {
	switch {
	case strings.HasPrefix(name, "MANIFEST-"):
		return manifestFile
	case strings.HasSuffix(name, ".log"):
		return logFile
	case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
		return tableFile
	}
	return otherFile
}

// inventory lists what must be there before the engine may open its directory: the engine takes a damaged
// end of a file for the end of what was written, and deletes the files that it then does not know.
type inventory struct {
	id    uint64 // of this history of the files; a copy has another one
	form  string // of the rows; empty until the store was first open
	files map[string]trace
}

func newInventory() *inventory {
	var id [8]byte
	_, _ = rand.Read(id[:]) // which never fails
	return &inventory{id: binary.BigEndian.Uint64(id[:]), files: map[string]trace{}}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// text is the inventory as it is stored: a line for each file, and a checksum.
func (inv *inventory) text() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %016x %q\n", inventoryForm, inv.id, inv.form)
	for _, name := range slices.Sorted(maps.Keys(inv.files)) {
		e := inv.files[name]
		fmt.Fprintf(&b, "%s %d %08x\n", name, e.size, e.sum)
	}
	fmt.Fprintf(&b, "sum %08x\n", crc32.Checksum([]byte(b.String()), castagnoli))
	return []byte(b.String())
}

var errInventory = errors.New("has another content than was written")

func parseInventory(text string) (*inventory, error) {
	at := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1
	if text[at:] != fmt.Sprintf("sum %08x\n", crc32.Checksum([]byte(text[:at]), castagnoli)) {
		return nil, errInventory
	}
	head, lines, _ := strings.Cut(text[:at], "\n")
	inv := &inventory{files: map[string]trace{}}
	if _, err := fmt.Sscanf(head, inventoryForm+" %x %q", &inv.id, &inv.form); err != nil {
		return nil, errNewer
	}
	for line := range strings.Lines(lines) {
		var name string
		var e trace
		if _, err := fmt.Sscanf(line, "%s %d %x\n", &name, &e.size, &e.sum); err != nil {
			return nil, errInventory
		}
		inv.files[name] = e
	}
	return inv, nil
}

// readInventory returns the inventory of a data directory, nil if there is none.
func readInventory(disk vfs.FS, path string) (*inventory, error) {
	text, err := readFile(disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	inv, err := parseInventory(string(text))
	if errors.Is(err, errInventory) {
		err = damagedNote(path)
	}
	return inv, err
}

// damagedNote is the error for a damaged file of the store's own notes. The jobs may be whole.
func damagedNote(path string) error {
	return &DamageError{path, "has another content than was written; it holds no jobs: move it away, and look with duehook doctor --deep whether they are whole"}
}

func readFile(disk vfs.FS, path string) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// verify compares the files of the engine with the inventory. Nothing is changed.
func (inv *inventory) verify(disk vfs.FS, dir string) error {
	current, err := atomicfs.ReadMarker(disk, dir, "manifest")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &DamageError{dir, "is missing"}
	case err != nil:
		return &DamageError{dir, fmt.Sprintf("has a file that does not belong to it: %v", err)}
	case current == "":
		return &DamageError{disk.PathJoin(dir, "marker.manifest.*"), "is missing"}
	}
	known, found := inv.files[current]
	if !found {
		return &DamageError{disk.PathJoin(dir, current), "is not the list of tables that was written last"}
	}
	if err := known.compare(disk, disk.PathJoin(dir, current)); err != nil {
		return err
	}
	needed, _, err := readManifest(disk, disk.PathJoin(dir, current))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(inv.files)) {
		e, kind, path := inv.files[name], kindOf(name), disk.PathJoin(dir, name)
		if kind == manifestFile || kind == logFile && logNumber(name) < needed {
			continue
		}
		if _, err := disk.Stat(path); errors.Is(err, fs.ErrNotExist) && (kind == tableFile || e.size == 0) {
			continue // the engine looks for the tables that it needs; a log may not have been begun
		}
		if err := e.compare(disk, path); err != nil {
			return err
		}
	}
	return nil
}

// compare returns a DamageError if a file is not what was written.
func (e trace) compare(disk vfs.FS, path string) error {
	found, err := measure(disk, path, e.size)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &DamageError{path, "is missing"}
	case err != nil:
		return err
	case found.size < e.size:
		return &DamageError{path, fmt.Sprintf("has %d bytes, and %d were written", found.size, e.size)}
	case found != e:
		return &DamageError{path, "has another content than was written"}
	}
	return nil
}

// measure returns the trace of a file, of which at most size bytes are looked at.
func measure(disk vfs.FS, path string, size int64) (e trace, err error) {
	f, err := disk.Open(path)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return e, err
	}
	e.size = info.Size()
	var from int64
	if kindOf(disk.PathBase(path)) == tableFile {
		from = max(0, e.size-tailSize)
	} else {
		e.size = min(e.size, size)
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(f, from, e.size-from)); err != nil {
		return e, fmt.Errorf("read %s: %w", path, err)
	}
	e.sum = sum.Sum32()
	return e, nil
}

func logNumber(name string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 64)
	return n
}

// The numbers at the beginning of a version edit, which may be in any of them.
const (
	editComparer = 1 // a text
	editLog      = 2 // the first log whose rows are not in tables
)

// readManifest returns the first log that is needed, and whether the manifest ends where a record does.
func readManifest(disk vfs.FS, path string) (needed uint64, whole bool, err error) {
	text, err := readFile(disk, path)
	if err != nil {
		return 0, false, err
	}
	edits := records.NewReader(bytes.NewReader(text), 0)
	for {
		var edit []byte
		r, err := edits.Next()
		if err == nil {
			edit, err = io.ReadAll(r)
		}
		if err != nil {
			return needed, errors.Is(err, io.EOF), nil
		}
		in := reader{b: edit}
		tag := in.uint()
		if tag == editComparer {
			_, tag = in.text(), in.uint()
		}
		if tag == editLog {
			needed = max(needed, in.uint())
		}
	}
}

// adopt makes the inventory of a directory that has none: it is new, its first start was cut off, or its
// inventory was moved away.
func adopt(disk vfs.FS, dir string) (*inventory, error) {
	inv := newInventory()
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return inv, nil
	}
	if err != nil {
		return nil, err
	}
	current, err := atomicfs.ReadMarker(disk, dir, "manifest")
	if err != nil {
		return nil, &DamageError{dir, fmt.Sprintf("has a file that does not belong to it: %v", err)}
	}
	for _, name := range names {
		path, size := disk.PathJoin(dir, name), int64(0)
		switch kind := kindOf(name); {
		case kind == otherFile, kind == manifestFile && name != current:
			continue
		case current == "":
			return nil, &DamageError{disk.PathJoin(dir, "marker.manifest.*"), "is missing"}
		case kind == manifestFile:
			size = math.MaxInt64
		}
		if inv.files[name], err = measure(disk, path, size); err != nil {
			return nil, err
		}
	}
	if current == "" {
		return inv, nil
	}
	path := disk.PathJoin(dir, current)
	_, whole, err := readManifest(disk, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &DamageError{path, "is missing"}
	case err == nil && !whole:
		return nil, &DamageError{path, "does not end where a record does"}
	}
	return inv, err
}
