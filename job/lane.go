package job

import (
	"errors"
	"strings"
)

// Lane is the jobs of one topic for one endpoint that have one priority. Each
// lane has a bucket of its own, so that a dead endpoint cannot hold up another,
// nor a backlog the jobs that go before it.
type Lane struct {
	Topic, Endpoint string
	Priority        Priority
}

// String is "topic|endpoint", or "topic|letter|endpoint" if the lane has a
// priority. Names cannot hold a bar, nor can an endpoint. Of the lanes of a topic
// those that go first sort first.
func (l Lane) String() string {
	if l.Priority == 0 {
		return l.Topic + "|" + l.Endpoint
	}
	return l.Topic + "|" + l.Priority.letter() + "|" + l.Endpoint
}

// Plain is the lane of the jobs of the same topic and endpoint that say nothing
// of a priority.
func (l Lane) Plain() Lane { return Lane{Topic: l.Topic, Endpoint: l.Endpoint} }

// ParseLane is the reverse of Lane.String.
func ParseLane(s string) (Lane, error) {
	topic, rest, ok := strings.Cut(s, "|")
	if !ok {
		return Lane{}, errors.New("a lane is written topic|endpoint or topic|letter|endpoint")
	}
	letter, endpoint, ranked := strings.Cut(rest, "|")
	if !ranked {
		return Lane{Topic: topic, Endpoint: rest}, nil
	}
	p, ok := priorityOfLetter(letter)
	if !ok {
		return Lane{}, errors.New("the letter of a lane is one of ABCD and wxyz")
	}
	return Lane{Topic: topic, Endpoint: endpoint, Priority: p}, nil
}
