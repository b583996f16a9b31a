package listing

import (
	"fmt"
	"strings"

	"github.com/duehook/duehook/job"
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
func DeadCursor(name string) string { return encodeName(deadCursor, name) }

// ParseDeadCursor returns the name of the group behind which a page begins. It is empty
// for the empty cursor.
func ParseDeadCursor(topic, cursor string) (string, error) {
	name, err := decodeName(deadCursor, cursor)
	if name == "" || err != nil {
		return "", err
	}
	lane, _, err := ParseDeadName(name)
	if err != nil || topic != "" && lane.Topic != topic {
		return "", errOtherListing
	}
	return name, nil
}
