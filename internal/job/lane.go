package job

import (
	"errors"
	"strings"
)

// Lane is the jobs of one topic for one endpoint and of one priority, with an order key
// or without. Each lane has a bucket of its own, so that neither a dead endpoint nor a
// backlog of lower priority delays other jobs.
type Lane struct {
	Topic, Endpoint string
	Priority        Priority
	Ordered         bool // its jobs have order keys
}

// laneSeparator is a character that neither names nor endpoints can contain.
const laneSeparator = "|"

// String is "topic|letter|endpoint". The letter stands for the priority and for Ordered:
// lanes of a topic sort by priority, the highest first. ParseLane is the reverse.
func (l Lane) String() string {
	return LanePrefix(l.Topic) + l.letter() + laneSeparator + l.Endpoint
}

// LanePrefix is how the names of a topic's lanes begin, and those of no other topic.
func LanePrefix(topic string) string { return topic + laneSeparator }

// Plain is the lane of the same topic and endpoint with the default priority and without
// order keys.
func (l Lane) Plain() Lane { return Lane{Topic: l.Topic, Endpoint: l.Endpoint} }

// ParseLane reads what Lane.String wrote.
func ParseLane(s string) (Lane, error) {
	topic, rest, ok := strings.Cut(s, laneSeparator)
	letter, endpoint, both := strings.Cut(rest, laneSeparator)
	if !ok || !both {
		return Lane{}, errors.New("a lane is written topic|letter|endpoint")
	}
	l, ok := laneOfLetter(letter)
	if !ok {
		return Lane{}, errors.New("the letter of a lane is one of " + letters)
	}
	l.Topic, l.Endpoint = topic, endpoint
	return l, nil
}

// Special reports whether the lane differs from its Plain one.
func (l Lane) Special() bool { return l.Priority != 0 || l.Ordered }

// Siblings are the other lanes that there may be of the topic and endpoint.
func (l Lane) Siblings() []Lane {
	all := make([]Lane, 0, len(letters)-1)
	for i := range letters {
		other, _ := laneOfLetter(letters[i : i+1])
		if other.Topic, other.Endpoint = l.Topic, l.Endpoint; other != l {
			all = append(all, other)
		}
	}
	return all
}

// TopicOfLane is the topic of a lane's name, or of a longer name that begins with one.
func TopicOfLane(name string) string {
	topic, _, _ := strings.Cut(name, laneSeparator)
	return topic
}

// letters are those of the lanes of a topic and endpoint, the highest priority first: for
// each priority one without order keys, then one with.
const letters = "ABCDEFGHMNstuvwxyz"

func (l Lane) letter() string {
	at := 2 * (MaxPriority - l.Priority.Number())
	if l.Ordered {
		at++
	}
	return letters[at : at+1]
}

// laneOfLetter is the lane of a letter, without topic and endpoint.
func laneOfLetter(letter string) (Lane, bool) {
	at := strings.Index(letters, letter)
	if len(letter) != 1 || at < 0 {
		return Lane{}, false
	}
	return Lane{Priority: PriorityOf(MaxPriority - at/2), Ordered: at%2 == 1}, true
}
