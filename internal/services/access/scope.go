package access

import (
	"errors"
	"fmt"
)

// Scope is what a key permits, and what a call requires. A scope includes all lower ones;
// Consume stands aside.
type Scope uint8

// The scopes. Keys have Read, Write, Admin or Consume.
const (
	// Nobody is the zero value. A call whose scope was forgotten is refused to everybody.
	Nobody Scope = iota
	// Public calls require no key.
	Public
	// Read permits reading jobs, topics and metrics.
	Read
	// Write permits changing jobs and what decides about them: topics, groups, schedules and
	// alert rules.
	Write
	// Admin permits what gives access: keys and signing secrets.
	Admin
	// Consume permits fetching jobs from pull queues and answering for them, and nothing else.
	// Write includes it, Read does not.
	Consume
)

var scopeNames = map[Scope]string{Nobody: "none", Public: "public", Read: "read", Write: "write", Admin: "admin", Consume: "consume"}

func (s Scope) String() string {
	if name, ok := scopeNames[s]; ok {
		return name
	}
	return fmt.Sprintf("scope(%d)", uint8(s))
}

// MarshalText returns the name of the scope.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the scope of a key: read, write, admin or consume.
func (s *Scope) UnmarshalText(name []byte) error {
	for _, known := range []Scope{Read, Write, Admin, Consume} {
		if string(name) == known.String() {
			*s = known
			return nil
		}
	}
	*s = Nobody
	return errors.New("must be read, write, admin or consume")
}

func (s Scope) includes(need Scope) bool {
	switch {
	case need == Nobody:
		return false
	case s == Consume:
		return need == Consume || need == Public
	case need == Consume:
		return s >= Write
	}
	return s >= need
}
