package redisstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// A server that was restarted may lack its last writes, although it has
// the last epoch.
func TestEpochsOfARestartedServer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		denied string // a command that the user may not use
		want   []string
		whole  bool // after the restart
	}{
		{name: "noticed", denied: "-config", want: []string{"", ""}},
		{name: "not noticed without INFO", denied: "-info", want: []string{"one", "one"}, whole: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, testenv.WithAOF(),
				testenv.WithArgs("--user", "app", "on", ">pw", "~*", "&*", "+@all", tc.denied))
			s := openAs(t, Options{URL: "redis://app:pw@" + server.Addr(), Shards: 2})
			swap := func(epoch, whole string, want ...string) {
				t.Helper()
				before, err := s.SwapEpoch(t.Context(), epoch, whole)
				ok(t, "SwapEpoch", err)
				if diff := cmp.Diff(want, before); diff != "" {
					t.Errorf("the marks before %q (-want +got):\n%s", epoch, diff)
				}
			}
			isWhole := func(what string, want bool) {
				t.Helper()
				for _, sh := range s.shards {
					got, err := s.isWhole(t.Context(), sh)
					ok(t, "isWhole", err)
					if got != want {
						t.Errorf("%s: whole is %v, want %v", what, got, want)
					}
				}
			}
			isWhole("a new server", false)
			swap("zero", "", "", "")
			swap("one", "zero", "zero", "zero")
			isWhole("all jobs were compared", true)
			server.Restart()
			isWhole("after a restart", tc.whole)
			swap("two", "one", tc.want...)
			isWhole("after a look", tc.whole)
			swap("three", "two", "two", "two")
			isWhole("compared again", true)
		})
	}
}
