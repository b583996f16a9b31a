package access

import "fmt"

// Scope is what a key may do, and what a call asks of a key. A scope includes
// all that are less than it.
type Scope uint8

// The scopes. Keys have Read, Write or Admin.
const (
	// Nobody is the zero value: a call whose scope was forgotten is refused to
	// everybody.
	Nobody Scope = iota
	// Public calls ask for no key.
	Public
	// Read looks at jobs, topics and metrics.
	Read
	// Write registers and changes jobs.
	Write
	// Admin changes what all clients share: keys, secrets, settings.
	Admin
)

var scopeNames = map[Scope]string{Nobody: "none", Public: "public", Read: "read", Write: "write", Admin: "admin"}

func (s Scope) String() string {
	if name, ok := scopeNames[s]; ok {
		return name
	}
	return fmt.Sprintf("scope(%d)", uint8(s))
}

// ParseScope reads the scope of a key: read, write or admin.
func ParseScope(name string) (Scope, error) {
	for _, s := range []Scope{Read, Write, Admin} {
		if name == scopeNames[s] {
			return s, nil
		}
	}
	return Nobody, fmt.Errorf("must be read, write or admin")
}

func (s Scope) includes(need Scope) bool { return need != Nobody && s >= need }
