// Package topics keeps what clients want of topics: limits, defaults of their
// jobs, and whether they are paused or drained.
//
// The truth is a document for each topic that is not as all others are. What the
// store has to obey, it is told as store.Limits: at once by the node that changes
// a topic, and by every node that finds the two differing, as when a Redis has
// lost its memory. Defaults are for registrations only, so each node remembers
// them; nodes tell each other of changes.
package topics
