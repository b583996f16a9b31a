package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxTopicSet is the most patterns of a TopicSet.
const MaxTopicSet = 100

// TopicSet is a set of topics by patterns: names, or beginnings of names followed by "*".
// Empty: all topics.
type TopicSet []string

// CheckTopicPattern checks one pattern.
func CheckTopicPattern(pattern string) error {
	begin, many := strings.CutSuffix(pattern, "*")
	switch {
	case many && begin == "":
		return errors.New("must not be * alone; leave the topics out for all of them")
	case strings.Contains(begin, "*"):
		return errors.New("may have one *, at the end")
	case many && (begin == "." || begin == ".."):
		return nil
	}
	return CheckName(begin)
}

// Has reports whether the set has the topic.
func (s TopicSet) Has(topic string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(pattern string) bool { return covers(pattern, topic) })
}

// Covers reports whether the set has all topics of the other one.
func (s TopicSet) Covers(other TopicSet) bool {
	if len(s) == 0 || len(other) == 0 {
		return len(s) == 0
	}
	return !slices.ContainsFunc(other, func(pattern string) bool { return !s.Has(pattern) })
}

// covers reports whether a pattern has a topic, or all topics of another pattern.
func covers(pattern, other string) bool {
	begin, many := strings.CutSuffix(pattern, "*")
	return pattern == other || many && strings.HasPrefix(other, begin)
}

// Allow returns a *TopicError unless the set has the topic. The empty topic stands for all.
func (s TopicSet) Allow(topic string) error {
	if len(s) == 0 || topic != "" && s.Has(topic) {
		return nil
	}
	return &TopicError{Topic: topic, Allowed: s}
}

// TopicError refuses a call for a topic that the caller may not use. The empty Topic stands
// for what all topics share.
type TopicError struct {
	Topic   string
	Allowed TopicSet
}

func (e *TopicError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("the call concerns all topics; the caller is restricted to %s", strings.Join(e.Allowed, ", "))
	}
	return fmt.Sprintf("the topic %s is none of %s", e.Topic, strings.Join(e.Allowed, ", "))
}
