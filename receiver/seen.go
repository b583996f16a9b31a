package receiver

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Status is what Seen knows of a delivery.
type Status int

// The statuses.
const (
	// Unseen: nobody has handled it, and nobody else is at it. It is the caller's.
	Unseen Status = iota
	// Running: somebody else is handling it.
	Running
	// Handled: it was handled.
	Handled
)

// Seen remembers deliveries by their webhook-id. Its methods are called
// concurrently.
//
// To share it between processes, Begin can be one command such as Redis's
// "SET <id> running NX GET EX 60", Done a "SET <id> handled EX 86400", and Forget
// a "DEL <id>". The mark that Begin sets must end by itself, after longer than
// handling can take, because a process that dies does not call Forget.
type Seen interface {
	// Begin marks id as running, if it is Unseen.
	Begin(ctx context.Context, id string) (Status, error)
	// Done marks id as handled. It is called once after a Begin that found Unseen,
	// unless Forget is.
	Done(ctx context.Context, id string) error
	// Forget removes the mark, because handling failed: the next attempt is Unseen.
	Forget(ctx context.Context, id string) error
}

// Defaults of MemoryOptions.
const (
	DefaultCapacity = 100_000
	// DefaultTTL is longer than the longest wait between two attempts of a job
	// with duehook's default retries.
	DefaultTTL = 24 * time.Hour
)

// MemoryOptions are the options of a Memory.
type MemoryOptions struct {
	// Capacity is how many handled deliveries are remembered; beyond it the one
	// not seen for longest is forgotten. Zero or less: DefaultCapacity. One takes
	// about 200 bytes.
	Capacity int
	// TTL is for how long, since it was seen last. Zero or less: DefaultTTL.
	TTL time.Duration
	// Now is the clock. Nil: the machine's.
	Now func() time.Time
}

// Memory is a Seen in the memory of this process. The zero value has the defaults of MemoryOptions.
type Memory struct {
	capacity int
	ttl      time.Duration
	now      func() time.Time

	mu      sync.Mutex
	running map[string]struct{} // one for each request in progress
	handled map[string]*list.Element
	order   *list.List // of remembered, the one seen last in front
}

// remembered is a handled delivery.
type remembered struct {
	id    string
	until time.Time
}

var _ Seen = (*Memory)(nil)

// NewMemory makes a Memory.
func NewMemory(o MemoryOptions) *Memory {
	m := &Memory{capacity: o.Capacity, ttl: o.TTL, now: o.Now}
	m.begin()
	return m
}

// begin gives the fields of a new Memory their values. Callers hold mu.
func (m *Memory) begin() {
	if m.order != nil {
		return
	}
	if m.capacity <= 0 {
		m.capacity = DefaultCapacity
	}
	if m.ttl <= 0 {
		m.ttl = DefaultTTL
	}
	if m.now == nil {
		m.now = systemTime
	}
	m.running, m.handled, m.order = map[string]struct{}{}, map[string]*list.Element{}, list.New()
}

// Begin implements Seen; it never fails.
func (m *Memory) Begin(_ context.Context, id string) (Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	m.expire()
	if e, ok := m.handled[id]; ok {
		// Whoever sent it again did not get the answer, and may send it once more.
		m.remember(e)
		return Handled, nil
	}
	if _, ok := m.running[id]; ok {
		return Running, nil
	}
	m.running[id] = struct{}{}
	return Unseen, nil
}

// Done implements Seen; it never fails.
func (m *Memory) Done(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	delete(m.running, id)
	e, ok := m.handled[id]
	if !ok {
		e = m.order.PushFront(&remembered{id: id})
		m.handled[id] = e
	}
	m.remember(e)
	for m.order.Len() > m.capacity {
		m.drop(m.order.Back())
	}
	return nil
}

// Forget implements Seen; it never fails.
func (m *Memory) Forget(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, id)
	return nil
}

// Len is how many handled deliveries are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	m.expire()
	return m.order.Len()
}

func (m *Memory) remember(e *list.Element) {
	e.Value.(*remembered).until = m.now().Add(m.ttl)
	m.order.MoveToFront(e)
}

// expire drops ids whose TTL has ended. All have the same TTL, so these are at the back.
func (m *Memory) expire() {
	now := m.now()
	for e := m.order.Back(); e != nil && !e.Value.(*remembered).until.After(now); e = m.order.Back() {
		m.drop(e)
	}
}

func (m *Memory) drop(e *list.Element) {
	delete(m.handled, e.Value.(*remembered).id)
	m.order.Remove(e)
}
