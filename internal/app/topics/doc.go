// Package topics keeps the settings of topics: limits, defaults of their jobs, and
// whether they are paused or draining.
//
// The truth is a document for each topic with settings or a status. The store enforces
// its store.Limits. The node that changes a topic sets them at once, and every node sets
// them again where they differ, for example after a Redis lost its data. Only
// registrations need the defaults, so each node keeps a copy of them. Nodes notify each
// other of changes.
package topics
