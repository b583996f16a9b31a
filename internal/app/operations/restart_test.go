package operations

import (
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

func TestRestart(t *testing.T) {
	for name, test := range map[string]struct{ kind, data, want string }{
		"an operation":    {documentKind, `{"action":"cancel","cursor":"c","owner":"n"}`, `{"action":"cancel"}`},
		"one unreadable":  {documentKind, `x`, `x`},
		"something else":  {"topic", `{"cursor":"c"}`, `{"cursor":"c"}`},
		"one that is not": {documentKind, `[]`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			d := store.Document{Kind: test.kind, Data: []byte(test.data)}
			Restart(&d)
			must.Equal(t, "data", string(d.Data), test.want)
		})
	}
}
