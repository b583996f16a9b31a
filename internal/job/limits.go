package job

import "time"

const day = 24 * time.Hour

// Fixed limits of a draft. Sizes are in bytes.
const (
	MaxName        = 128 // of a topic, an id, a biz_key or an order_key, in bytes
	MaxMember      = 96  // of the name of a group's member, in bytes; the uid of a registration fits before it
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

	// MaxDelay is the longest time until a job is due.
	MaxDelay = 366 * day
	// MaxTTL is twice MaxDelay, which leaves time for the ladder of a job with the
	// longest delay.
	MaxTTL = 2 * MaxDelay
	// MinTimeout is the shortest timeout of one attempt; the longest is a setting.
	MinTimeout = 100 * time.Millisecond
)

// DefaultTopic is the topic of a job without one.
const DefaultTopic = "default"
