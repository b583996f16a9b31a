package receiver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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
	for seed := range uint64(200) {
		m := newModel(seed)
		for step := range 100 {
			if err := m.step(t); err != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, err)
			}
		}
	}
}

type model struct {
	*receiver.Memory
	clock   *clock
	random  *rand.Rand
	running map[string]bool
	order   []string // handled ones, seen last first
	seen    map[string]time.Time
}

const (
	modelCapacity = 4
	modelTTL      = time.Minute
)

func newModel(seed uint64) *model {
	c := newClock()
	return &model{
		Memory: receiver.NewMemory(receiver.MemoryOptions{Capacity: modelCapacity, TTL: modelTTL, Now: c.Now}),
		clock:  c, random: rand.New(rand.NewPCG(seed, 0)),
		running: map[string]bool{}, seen: map[string]time.Time{},
	}
}

// step does one of the calls, and returns what differs.
func (m *model) step(t *testing.T) string {
	t.Helper()
	id := string("abcdef"[m.random.IntN(6)])
	switch m.random.IntN(4) {
	case 0:
		want := m.begin(id)
		if got := begin(t, m.Memory, id); got != want {
			return fmt.Sprintf("%s: %v, want %v", id, got, want)
		}
	case 1:
		delete(m.running, id)
		done(t, m.Memory, id)
		m.touch(id)
	case 2:
		delete(m.running, id)
		if err := m.Forget(t.Context(), id); err != nil {
			return err.Error()
		}
	case 3:
		m.clock.advance(time.Duration(m.random.IntN(41)) * time.Second)
	}
	remembered := 0
	for _, o := range m.order {
		if m.remembers(o) {
			remembered++
		}
	}
	if got := m.Len(); got != remembered {
		return fmt.Sprintf("%d are remembered, want %d", got, remembered)
	}
	return ""
}

func (m *model) begin(id string) receiver.Status {
	switch {
	case m.remembers(id):
		m.touch(id)
		return receiver.Handled
	case m.running[id]:
		return receiver.Running
	}
	m.running[id] = true
	return receiver.Unseen
}

func (m *model) touch(id string) {
	next := []string{id}
	for _, o := range m.order {
		if o != id && len(next) < modelCapacity {
			next = append(next, o)
		}
	}
	m.order, m.seen[id] = next, m.clock.Now()
}

func (m *model) remembers(id string) bool {
	return slices.Contains(m.order, id) && m.clock.Now().Sub(m.seen[id]) < modelTTL
}
