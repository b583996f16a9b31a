package store

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/duehook/duehook/internal/job"
)

// PullChannel is the channel of Messaging on which stores tell consumers of pull queues that jobs
// may be due earlier than they know. Its messages are those of PullMessage. As on each channel,
// messages may be lost.
const PullChannel = "pull"

// PullMessage says that jobs of the topic's pull queue may be due at a time.
func PullMessage(topic string, at job.Instant) string {
	return strconv.FormatInt(int64(at), 10) + " " + topic
}

// ParsePullMessage reads what PullMessage wrote.
func ParsePullMessage(message []byte) (topic string, at job.Instant, err error) {
	ms, topic, _ := strings.Cut(string(message), " ")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("a message about a pull queue: %w", err)
	}
	return topic, job.Instant(n), nil
}
