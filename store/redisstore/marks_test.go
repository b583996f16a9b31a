package redisstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// A server that was started again may lack what it did last, although it has
// the last mark.
func TestMarksOfARestartedServer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		denied string // a command that the user may not use
		want   []string
	}{
		{name: "noticed", denied: "-config", want: []string{"", ""}},
		{name: "not noticed without INFO", denied: "-info", want: []string{"one", "one"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, testenv.WithAOF(),
				testenv.WithArgs("--user", "app", "on", ">pw", "~*", "&*", "+@all", tc.denied))
			s := openAs(t, Options{URL: "redis://app:pw@" + server.Addr(), Shards: 2})
			swap := func(mark string, want ...string) {
				t.Helper()
				before, err := s.SwapEpoch(t.Context(), mark)
				ok(t, "SwapEpoch", err)
				if diff := cmp.Diff(want, before); diff != "" {
					t.Errorf("the marks before %q (-want +got):\n%s", mark, diff)
				}
			}
			swap("zero", "", "")
			swap("one", "zero", "zero")
			server.Restart()
			swap("two", tc.want...)
			swap("three", "two", "two")
		})
	}
}
