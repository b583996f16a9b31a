package job

import (
	"fmt"
	"strings"
)

// Priority is the place of a job among those of its topic that are due: 9 goes
// first, 1 last. Zero stands for DefaultPriority, which is never stored as such,
// so that whoever says it and whoever says nothing register the same job.
type Priority int8

// The priorities that a job may have, and that of one which says nothing.
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

// letters stand for priorities in the names of lanes, the highest first.
const letters = "ABCDMwxyz"

func (p Priority) letter() string {
	at := MaxPriority - p.Number()
	return letters[at : at+1]
}

func priorityOfLetter(letter string) (Priority, bool) {
	at := strings.Index(letters, letter)
	if len(letter) != 1 || at < 0 {
		return 0, false
	}
	return PriorityOf(MaxPriority - at), true
}

// priority is zero when the draft leaves it out.
func (f *findings) priority(field Field, n *int) Priority {
	switch {
	case n == nil:
		return 0
	case *n < MinPriority || *n > MaxPriority:
		f.add(field, fmt.Sprintf("must be from %d to %d", MinPriority, MaxPriority))
		return 0
	}
	return PriorityOf(*n)
}
