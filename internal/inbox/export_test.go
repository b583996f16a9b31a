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

// Age makes the errors of readers older.
func Age(m *Manager, d time.Duration) {
	for _, r := range m.readers {
		r.mu.Lock()
		r.since = r.since.Add(-d)
		r.mu.Unlock()
	}
}
