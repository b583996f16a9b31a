package diskstore

import (
	"context"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// SetCircuit opens or closes the circuit of an endpoint.
func (s *Store) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	return s.change(ctx, false, func(t *txn) {
		e, ok := s.endpoints.Get(endpoint)
		if !ok {
			if to != store.CircuitOpen {
				return
			}
			e = s.endpointOf(endpoint)
		}
		t.changeCircuit(e, rules.ChangedCircuit(e.circuit, to, d, t.now))
	})
}

// changeCircuit visits the endpoint's lanes after a change of its circuit. It visits them
// by name, so that equal calls have equal effects.
func (t *txn) changeCircuit(e *endpoint, c store.Circuit) {
	if c == e.circuit {
		return
	}
	e.circuit, t.s.notClosed[e] = c, struct{}{}
	e.lanes.Scan(func(_ string, l *lane) bool {
		l.limited = 0
		t.look(l)
		return true
	})
}
