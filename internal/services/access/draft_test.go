package access

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

func TestDraftMakesKeys(t *testing.T) {
	clock := newTestClock()
	for _, c := range []struct {
		draft Draft
		want  Key
	}{
		{Draft{Scope: "write"}, Key{Scope: Write, Namespace: "shop"}},
		{
			Draft{Scope: "admin", Name: "ops", Rate: "10/s", ExpiresAt: "2027-01-31T00:00:00Z"},
			Key{Scope: Admin, Name: "ops", Namespace: "shop", Rate: Rate{10, time.Second}, ExpiresAt: job.InstantOf(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC))},
		},
		{Draft{Scope: "read", Topics: []string{"orders-*", "payments"}}, Key{Scope: Read, Namespace: "shop", Topics: job.TopicSet{"orders-*", "payments"}}},
	} {
		token, made, err := c.draft.Key("shop", job.InstantOf(clock.Now()))
		if err != nil {
			t.Fatal(err)
		}
		c.want.ID, c.want.Digest = token.id(), token.digest()
		keys, err := ParseKeys(made.Line())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Key{c.want}, keys); diff != "" {
			t.Errorf("%+v: %s", c.draft, diff)
		}
		if strings.Contains(made.Line(), secretOf(token.Reveal())[:8]) {
			t.Error("the line shows the secret")
		}
		k := newKeys(t, Options{Keys: keys, Namespace: "shop", Clock: clock})
		if p := mustAuthenticate(t, k, token.Reveal()); p.Allows(made.Scope) != nil {
			t.Errorf("%+v: the key does not work", c.draft)
		}
	}
}
