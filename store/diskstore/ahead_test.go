package diskstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// content is what a file has.
func content(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	must.OK(t, err)
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	must.OK(t, err)
	return b
}

// A log has what was written, and zeros up to a multiple of aheadStep, also when an older log is
// used again.
func TestWriteAhead(t *testing.T) {
	mem := vfs.NewMem()
	fs := &patientFS{FS: mem}
	write := func(f vfs.File, err error, sizes ...int) (all []byte) {
		t.Helper()
		must.OK(t, err)
		for i, size := range sizes {
			p := bytes.Repeat([]byte{byte(i + 1)}, size)
			all = append(all, p...)
			if n, err := f.Write(p); n != size || err != nil { // which may alter p
				t.Fatalf("%d bytes of %d were written, %v", n, size, err)
			}
		}
		must.OK(t, f.Close())
		return all
	}
	check := func(name string, written []byte, size int) {
		t.Helper()
		got := content(t, mem, name)
		if len(got) != size || !bytes.HasPrefix(got, written) {
			t.Errorf("%s has %d bytes, want %d that begin with what was written", name, len(got), size)
		}
	}

	f, err := fs.Create("a", logCategory)
	a := write(f, err, 10, aheadStep-10)
	check("a", a, aheadStep)
	f, err = fs.ReuseForWrite("a", "b", logCategory)
	b := write(f, err, 10)
	check("b", append(b, a[10:]...), aheadStep)
	f, err = fs.ReuseForWrite("b", "c", logCategory)
	c := write(f, err, 10, aheadStep, 2*aheadStep)
	check("c", append(c, make([]byte, aheadStep-10)...), 4*aheadStep)
	f, err = fs.Create("other", vfs.WriteCategoryUnspecified)
	check("other", write(f, err, 10), 10)
}

// A log is written although nothing can be written ahead.
func TestWriteAheadFails(t *testing.T) {
	mem := vfs.NewMem()
	fs := &patientFS{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt {
			return errors.New("no zeros")
		}
		return nil
	}))}
	f, err := fs.Create("a", logCategory)
	must.OK(t, err)
	if n, err := f.Write([]byte("record")); n != 6 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if got := content(t, mem, "a"); string(got) != "record" {
		t.Errorf("it has %q", got)
	}
}

// The engine's log is one that is written ahead.
func TestLogIsWrittenAhead(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open(Options{FS: mem, Dir: "data"})
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	if _, err := s.Register(t.Context(), []store.Registration{}); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("data/jobs")
	must.OK(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			must.Equal(t, fmt.Sprintf("the log %s", name), len(content(t, mem, "data/jobs/"+name)), aheadStep)
			return
		}
	}
	t.Fatalf("no log among %v", names)
}
