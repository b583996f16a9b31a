package testenv

import (
	"testing"

	"github.com/duehook/duehook/store/diskstore"
)

// Store opens a store in memory, which closes when the test ends. It serves in a bubble of
// virtual time, too.
func Store(t testing.TB, o diskstore.Options) diskstore.Embedded {
	t.Helper()
	s, err := diskstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
