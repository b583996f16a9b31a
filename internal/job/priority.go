package job

import "fmt"

// Priority is the rank of a job among the due jobs of its topic: 9 goes first, 1
// last. Zero stands for DefaultPriority, which is never stored as a number, so that a
// registration with the default equals one without a priority.
type Priority int8

// The range of priorities, and the default.
const (
	MinPriority     = 1
	DefaultPriority = 5
	MaxPriority     = 9
)

// PriorityOf is the priority with a number from MinPriority to MaxPriority.
func PriorityOf(number int) Priority {
	if number == DefaultPriority {
		return 0
	}
	return Priority(number)
}

// Number is from MinPriority to MaxPriority.
func (p Priority) Number() int {
	if p == 0 {
		return DefaultPriority
	}
	return int(p)
}

// priority is zero if the draft has none.
func (f *Findings) priority(field Field, n *int) Priority {
	switch {
	case n == nil:
		return 0
	case *n < MinPriority || *n > MaxPriority:
		f.Add(field, fmt.Sprintf("must be from %d to %d", MinPriority, MaxPriority))
		return 0
	}
	return PriorityOf(*n)
}
