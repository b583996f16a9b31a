package access

import (
	"errors"
	"fmt"
)

// Scope is what a key permits, and what a call requires. A scope includes all lower ones.
type Scope uint8

// The scopes. Keys have Read, Write or Admin.
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
	// Admin permits what gives access or brings data back: keys, signing secrets and restoring.
	Admin
)

var scopeNames = map[Scope]string{Nobody: "none", Public: "public", Read: "read", Write: "write", Admin: "admin"}

func (s Scope) String() string {
	if name, ok := scopeNames[s]; ok {
		return name
	}
	return fmt.Sprintf("scope(%d)", uint8(s))
}

// MarshalText returns the name of the scope.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the scope of a key: read, write or admin.
func (s *Scope) UnmarshalText(name []byte) error {
	for _, known := range []Scope{Read, Write, Admin} {
		if string(name) == known.String() {
			*s = known
			return nil
		}
	}
	*s = Nobody
	return errors.New("must be read, write or admin")
}

func (s Scope) includes(need Scope) bool { return need != Nobody && s >= need }
