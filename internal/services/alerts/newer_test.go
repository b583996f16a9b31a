package alerts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/store"
)

// A document of a newer version that cannot be read is left alone, and so is what
// followed from it.
func TestUnreadableDocuments(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
		a.rule("new", Draft{Metric: "open_circuits"})
		r.hold(shop, time.Hour)
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"down firing " + shop + " 1", "new firing " + shop + " 1"})
		unreadable := `{"metric":"weather"}`
		for _, d := range []store.Document{
			{Kind: ruleKind, Name: "new", Data: []byte(unreadable)},
			{Kind: bookKind, Name: "newest", Data: []byte(`{"alerts":7,"notices":[]}`)},
		} {
			if old, err := store.ReadDocument(t.Context(), r.Store, d.Kind, d.Name); err == nil {
				d.Version = old.Version
			}
			if _, err := store.PutDocument(t.Context(), r.Store, d); err != nil {
				t.Fatal(err)
			}
		}
		pass(3 * round)
		if _, _, err := a.Put(t.Context(), "new", Draft{Metric: "open_circuits"}); !errors.Is(err, store.ErrNewer) {
			t.Errorf("it was written over: %v", err)
		}
		if d, err := store.ReadDocument(t.Context(), r.Store, ruleKind, "new"); err != nil || string(d.Data) != unreadable {
			t.Errorf("%s, error %v", d.Data, err)
		}
		same(t, "alerts", a.alerts(), []string{"down firing " + shop + " 1", "new firing " + shop + " 1"})
		if _, err := store.ReadDocument(t.Context(), r.Store, bookKind, "newest"); err != nil {
			t.Error(err)
		}
		if rules, err := a.Rules(t.Context()); err != nil || len(rules) != 1 {
			t.Errorf("%d rules, error %v", len(rules), err)
		}
		if _, err := a.Rule(t.Context(), "new"); err == nil {
			t.Error("a rule was read that is not understood")
		}
	})
}

// Fields that only a newer version knows are kept when this one writes.
func TestFieldsOfNewerVersionsAreKept(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.node("a")
		a.rule("down", Draft{Metric: "open_circuits"})
		add := func(kind, name, field string) {
			t.Helper()
			d, err := store.ReadDocument(t.Context(), r.Store, kind, name)
			if err != nil {
				t.Fatal(err)
			}
			d.Data = append([]byte(`{"`+field+`":7,`), d.Data[1:]...)
			if _, err := store.PutDocument(t.Context(), r.Store, d); err != nil {
				t.Fatal(err)
			}
		}
		add(ruleKind, "down", "weight")
		r.hold(shop, time.Hour)
		pass(round)
		add(bookKind, "down", "silenced")
		pass(2 * round)
		a.rule("down", Draft{Metric: "open_circuits", URL: "https://new.example/"})
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"down firing " + shop + " 1"})
		for kind, want := range map[string]string{ruleKind: `"weight":7`, bookKind: `"silenced":7`} {
			d, err := store.ReadDocument(t.Context(), r.Store, kind, "down")
			if err != nil || !strings.Contains(string(d.Data), want) || !strings.Contains(string(d.Data), "new.example") {
				t.Errorf("%s: %s, error %v", kind, d.Data, err)
			}
		}
	})
}
