package job

import "time"

const day = 24 * time.Hour

// Limits of a draft that are no setting. Sizes are in bytes.
const (
	MaxName        = 128 // of a topic, an id or a biz_key, in bytes
	MaxURL         = 2048
	MaxContentType = 256

	MaxHeaders     = 64      // number of headers
	MaxHeaderName  = 128     // of one name
	MaxHeaderValue = 4 << 10 // of one value
	MaxHeaderBytes = 16 << 10

	MaxRetrySteps = 64 // number of steps
	MaxRetryStep  = 30 * day
	MaxRetryLimit = 1000 // retries after the first attempt

	MaxExpectBody = 1 << 10 // after trimming

	MaxLabels     = 8  // number of labels
	MaxLabelKey   = 32 // of one key
	MaxLabelValue = 64 // characters of one value

	// MaxDelay is how far ahead a job can be due.
	MaxDelay = 366 * day
	// MaxTTL is twice MaxDelay, so that the TTL of a job due as late as can be
	// leaves room for its ladder.
	MaxTTL = 2 * MaxDelay
	// MinTimeout is the shortest timeout of one attempt; the longest is a setting.
	MinTimeout = 100 * time.Millisecond
)

// DefaultTopic is the topic of a job that names none.
const DefaultTopic = "default"
