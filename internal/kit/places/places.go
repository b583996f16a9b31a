// Package places bounds what callers hold at the same time.
package places

import "sync"

// Places are places for callers. One key has at most half of them.
type Places struct {
	most int
	mu   sync.Mutex
	held int
	of   map[string]int // by key
}

// New returns as many places.
func New(most int) *Places { return &Places{most: most, of: map[string]int{}} }

// Take takes a place for a key until free. The empty key stands for all callers, on servers without keys. It returns nil if
// there is no place.
func (p *Places) Take(key string) (free func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held >= p.most || key != "" && p.of[key] >= p.most/2 {
		return nil
	}
	p.held++
	p.of[key]++
	return func() { p.free(key) }
}

func (p *Places) free(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if p.of[key]--; p.of[key] == 0 {
		delete(p.of, key)
	}
}

// Held is the number of places that are taken.
func (p *Places) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
