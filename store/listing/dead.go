package listing

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// DeadName names the group of a dead letter: "topic|letter|endpoint|reason". Stores
// keep dead letters by it, each group in the order in which its jobs ended.
func DeadName(lane job.Lane, reason string) string { return lane.Plain().String() + "|" + reason }

// ParseDeadName is the reverse of DeadName.
func ParseDeadName(name string) (lane job.Lane, reason string, err error) {
	at := strings.LastIndexByte(name, '|')
	if at < 0 {
		return lane, "", fmt.Errorf("a group of dead letters is written topic|letter|endpoint|reason, not %q", name)
	}
	lane, err = job.ParseLane(name[:at])
	return lane, name[at+1:], err
}

// DeadCursor is the cursor of a page that ends with a group.
func DeadCursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// ParseDeadCursor gives the name of the group behind which a page begins; the
// empty cursor gives the empty name.
func ParseDeadCursor(topic, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	name, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	lane, _, err := ParseDeadName(string(name))
	if err != nil || topic != "" && lane.Topic != topic {
		return "", fmt.Errorf("%w: it belongs to another listing", store.ErrBadCursor)
	}
	return string(name), nil
}
