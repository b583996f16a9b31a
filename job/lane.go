package job

import (
	"errors"
	"strings"
)

// Lane is the jobs of one topic for one endpoint and of one priority. Each lane
// has a bucket of its own, so that neither a dead endpoint nor a backlog of lower
// priority delays other jobs.
type Lane struct {
	Topic, Endpoint string
	Priority        Priority
}

// laneSeparator is a character that neither names nor endpoints can contain.
const laneSeparator = "|"

// String is "topic|letter|endpoint". The letter stands for the priority: lanes of
// a topic sort by priority, the highest first. ParseLane is the reverse.
func (l Lane) String() string {
	return LanePrefix(l.Topic) + l.Priority.letter() + laneSeparator + l.Endpoint
}

// LanePrefix is how the names of a topic's lanes begin, and those of no other topic.
func LanePrefix(topic string) string { return topic + laneSeparator }

// Plain is the lane of the same topic and endpoint with the default priority.
func (l Lane) Plain() Lane { return Lane{Topic: l.Topic, Endpoint: l.Endpoint} }

// ParseLane reads what Lane.String wrote.
func ParseLane(s string) (Lane, error) {
	topic, rest, ok := strings.Cut(s, laneSeparator)
	letter, endpoint, both := strings.Cut(rest, laneSeparator)
	if !ok || !both {
		return Lane{}, errors.New("a lane is written topic|letter|endpoint")
	}
	p, ok := priorityOfLetter(letter)
	if !ok {
		return Lane{}, errors.New("the letter of a lane is one of " + letters)
	}
	return Lane{Topic: topic, Endpoint: endpoint, Priority: p}, nil
}

// TopicOfLane is the topic of a lane's name, or of a longer name that begins with one.
func TopicOfLane(name string) string {
	topic, _, _ := strings.Cut(name, laneSeparator)
	return topic
}
