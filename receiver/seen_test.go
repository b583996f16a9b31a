package receiver_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/receiver"
)

func begin(t testing.TB, m *receiver.Memory, id string) receiver.Status {
	t.Helper()
	s, err := m.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func done(t testing.TB, m *receiver.Memory, id string) {
	t.Helper()
	if err := m.Done(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	m := receiver.NewMemory(receiver.MemoryOptions{Capacity: 3})
	for _, id := range []string{"a", "b", "c"} {
		begin(t, m, id)
		done(t, m, id)
	}
	if s := begin(t, m, "a"); s != receiver.Handled { // now b was not seen for longest
		t.Errorf("a: %v", s)
	}
	begin(t, m, "d")
	done(t, m, "d")
	for id, want := range map[string]receiver.Status{
		"a": receiver.Handled, "c": receiver.Handled, "d": receiver.Handled, "b": receiver.Unseen,
	} {
		if got := begin(t, m, id); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestMemoryForgetsInTime(t *testing.T) {
	c := newClock()
	m := receiver.NewMemory(receiver.MemoryOptions{Now: c.Now})
	for _, id := range []string{"a", "b"} {
		begin(t, m, id)
		done(t, m, id)
	}
	c.advance(receiver.DefaultTTL - 1)
	if s := begin(t, m, "b"); s != receiver.Handled {
		t.Errorf("b just before: %v", s)
	}
	c.advance(1)
	if s := begin(t, m, "a"); s != receiver.Unseen {
		t.Errorf("a at the end: %v", s)
	}
	// It came again meanwhile, so its sender may try yet again.
	if s := begin(t, m, "b"); s != receiver.Handled {
		t.Errorf("b: %v", s)
	}
	c.advance(receiver.DefaultTTL)
	if n := m.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
	// What is being handled is no memory, and does not fade.
	if s := begin(t, m, "a"); s != receiver.Running {
		t.Errorf("a: %v", s)
	}
}

// A Memory does what one with an unlimited memory would, as long as nothing
// has to be forgotten.
func TestMemoryAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const capacity, ttl = 4, time.Minute
		c := newClock()
		m := receiver.NewMemory(receiver.MemoryOptions{Capacity: capacity, TTL: ttl, Now: c.Now})
		ids := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		running := map[string]bool{}
		var order []string // handled ones, seen last first
		seen := map[string]time.Time{}
		touch := func(id string) {
			next := []string{id}
			for _, o := range order {
				if o != id && len(next) < capacity {
					next = append(next, o)
				}
			}
			order, seen[id] = next, c.Now()
		}
		remembered := func(id string) bool {
			for _, o := range order {
				if o == id {
					return c.Now().Sub(seen[id]) < ttl
				}
			}
			return false
		}
		rt.Repeat(map[string]func(*rapid.T){
			"begin": func(rt *rapid.T) {
				id := ids.Draw(rt, "id")
				want := receiver.Unseen
				switch {
				case remembered(id):
					want = receiver.Handled
					touch(id)
				case running[id]:
					want = receiver.Running
				default:
					running[id] = true
				}
				if got := begin(t, m, id); got != want {
					rt.Fatalf("%s: %v, want %v", id, got, want)
				}
			},
			"done": func(rt *rapid.T) {
				id := ids.Draw(rt, "id")
				delete(running, id)
				done(t, m, id)
				touch(id)
			},
			"forget": func(rt *rapid.T) {
				id := ids.Draw(rt, "id")
				delete(running, id)
				if err := m.Forget(t.Context(), id); err != nil {
					rt.Fatal(err)
				}
			},
			"wait": func(rt *rapid.T) {
				c.advance(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			},
			"": func(rt *rapid.T) {
				n := 0
				for _, id := range order {
					if remembered(id) {
						n++
					}
				}
				if got := m.Len(); got != n {
					rt.Fatalf("%d are remembered, want %d", got, n)
				}
			},
		})
	})
}
