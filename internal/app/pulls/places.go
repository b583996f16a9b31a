package pulls

import "sync"

// places are places for callers. One key has at most half of them.
type places struct {
	most int
	mu   sync.Mutex
	held int
	of   map[string]int // by key
}

func newPlaces(most int) *places { return &places{most: most, of: map[string]int{}} }

// take takes a place for a key until free. The empty key stands for all callers, on servers without keys. It returns nil if
// there is no place.
func (p *places) take(key string) (free func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held >= p.most || key != "" && p.of[key] >= p.most/2 {
		return nil
	}
	p.held++
	p.of[key]++
	return func() { p.leave(key) }
}

func (p *places) leave(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if p.of[key]--; p.of[key] == 0 {
		delete(p.of, key)
	}
}

// taken is the number of places that are taken.
func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
