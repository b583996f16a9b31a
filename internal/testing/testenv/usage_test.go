package testenv

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/must"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a (b) c) S 7 1 1 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100 1 1")
	must.OK(t, err)
	must.Equal(t, "a line", got, stat{parent: 7, self: 2 * time.Second, waitedFor: 500 * time.Millisecond})
	if _, err := parseStat("42 (a) S 7"); err == nil {
		t.Error("half a line is accepted")
	}
}
