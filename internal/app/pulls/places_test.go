package pulls

import "testing"

// A key has at most half of the places. Callers without keys share all of them.
func TestPlaces(t *testing.T) {
	p := newPlaces(4)
	take := func(key string, ok bool) func() {
		t.Helper()
		free := p.take(key)
		if (free != nil) != ok {
			t.Errorf("%q has a place: %v, want %v, with %d held", key, free != nil, ok, p.taken())
		}
		return free
	}
	free := take("a", true)
	take("a", true)
	take("a", false)
	take("b", true)
	free()
	take("b", true)
	take("b", false)
	free = take("a", true)
	take("c", false) // all are held
	free()
	take("c", true)
	if len(p.of) != 3 || p.taken() != 4 {
		t.Errorf("%v, %d held", p.of, p.taken())
	}
	open := newPlaces(2)
	for range 2 {
		if open.take("") == nil {
			t.Error("a server without keys has fewer places")
		}
	}
	if open.take("") != nil {
		t.Error("a place too many")
	}
}
