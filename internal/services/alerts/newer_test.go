package alerts

import (
	"errors"
	"slices"
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
		a.rule("down", Draft{Metric: OpenCircuits})
		a.rule("new", Draft{Metric: OpenCircuits})
		r.hold(shop, time.Hour)
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"down " + shop + " 1", "new " + shop + " 1"})
		unreadable := `{"metric":"weather"}`
		d, err := store.ReadDocument(t.Context(), r.Store, "alert-rule", "new")
		if err != nil {
			t.Fatal(err)
		}
		d.Data = []byte(unreadable)
		if _, err := store.PutDocument(t.Context(), r.Store, d); err != nil {
			t.Fatal(err)
		}
		pass(3 * round)
		if _, _, err := a.Put(t.Context(), "new", Draft{Metric: OpenCircuits}); !errors.Is(err, store.ErrNewer) {
			t.Errorf("it was written over: %v", err)
		}
		if d, err := store.ReadDocument(t.Context(), r.Store, "alert-rule", "new"); err != nil || string(d.Data) != unreadable {
			t.Errorf("%s, error %v", d.Data, err)
		}
		told := r.told()
		slices.Sort(told)
		same(t, "webhooks", told, []string{"down firing " + shop, "new firing " + shop})
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
		a.rule("down", Draft{Metric: OpenCircuits})
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
		add("alert-rule", "down", "weight")
		r.hold(shop, time.Hour)
		pass(2 * round)
		a.rule("down", Draft{Metric: OpenCircuits, URL: "https://new.example/"})
		pass(2 * round)
		same(t, "alerts", a.alerts(), []string{"down " + shop + " 1"})
		d, err := store.ReadDocument(t.Context(), r.Store, "alert-rule", "down")
		if err != nil || !strings.Contains(string(d.Data), `"weight":7`) || !strings.Contains(string(d.Data), "new.example") {
			t.Errorf("%s, error %v", d.Data, err)
		}
	})
}
