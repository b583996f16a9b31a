package torture

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// skewLibrary is testdata/skew.c, compiled with the C compiler that the race
// detector needs anyway.
var skewLibrary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "skew.so")
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	out, err := exec.Command(cc, "-O2", "-shared", "-fPIC", "-o", path, "testdata/skew.c").CombinedOutput()
	if err != nil {
		return "", &buildError{err, out}
	}
	return path, nil
})

type buildError struct {
	err error
	out []byte
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + string(e.out) }
func (e *buildError) Unwrap() error { return e.err }

// skew steps the clock of a server that was started with env, by whatever user.
type skew struct {
	t    testing.TB
	path string
	env  []string
}

func newSkew(t testing.TB) *skew {
	t.Helper()
	library, err := skewLibrary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(buildDir, "skew-") //nolint:usetesting // another user, who may run the server, cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{buildDir, dir} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &skew{t: t, path: filepath.Join(dir, "skew")}
	s.env = []string{"LD_PRELOAD=" + library, "SKEW_FILE=" + s.path}
	s.set(0)
	return s
}

// set makes the clock show the real time and d more, from now on.
func (s *skew) set(d time.Duration) {
	s.t.Helper()
	content := binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second)))
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY, 0o644) // the server maps the file
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
}
