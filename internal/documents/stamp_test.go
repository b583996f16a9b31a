package documents

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/diskstore"
)

type stamped struct {
	Stamp
	Text string `json:"text"`
}

func TestStamp(t *testing.T) {
	clock := testenv.NewClock(time.UnixMilli(1000))
	mem := testenv.Store(t, diskstore.Options{Clock: clock})
	c := New(Options[stamped]{
		Store: mem, Kind: "stamped", Clock: clock, Stamp: func(v *stamped) *Stamp { return &v.Stamp },
		Blank: func(v *stamped) bool { return v.Text == "" },
	})
	set := func(text string, want Stamp) {
		t.Helper()
		d, err := c.Update(t.Context(), "d", func(d *Document[stamped]) error {
			d.Value = stamped{Text: text} // whatever its stamp is
			return nil
		})
		if err != nil || text != "" && d.Value.Stamp != want {
			t.Errorf("%s: %+v, want %+v; error %v", text, d.Value.Stamp, want, err)
		}
	}
	set("a", Stamp{1000, 1000, 1000})
	set("a", Stamp{1000, 1000, 1000})
	set("b", Stamp{1000, 1000, 1001})
	clock.Advance(time.Second)
	set("b", Stamp{1000, 1000, 1001})
	set("a", Stamp{1000, 2000, 2000})
	set("", Stamp{})
	set("a", Stamp{2000, 2000, 2000}) // the same content as the same version
	clock.Advance(time.Millisecond)
	set("", Stamp{})
	set("c", Stamp{2001, 2001, 2001})
	made, err := c.Create(t.Context(), "e", stamped{Text: "e"})
	if want := (Stamp{2001, 2001, 2001}); err != nil || made.Value.Stamp != want {
		t.Errorf("created: %+v, %v", made.Value.Stamp, err)
	}
}
