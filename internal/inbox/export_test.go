package inbox

import "time"

// WithStep has a test stop readers before a step.
func WithStep(o Options, step func(inbox, name string) error) Options {
	o.step = step
	return o
}

// WithPause has readers that find nothing pause for d.
func WithPause(o Options, d time.Duration) Options {
	o.Poll, o.pause = d, d
	return o
}

// WithStuck has an inbox that cannot be read for d be a trouble.
func WithStuck(o Options, d time.Duration) Options {
	o.stuck = d
	return o
}
