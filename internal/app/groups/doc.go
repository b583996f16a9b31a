// Package groups keeps groups of webhooks, and decides which jobs a registration for a
// group makes: one for each member (fan-out).
//
// A group is a document that all nodes share. Registrations read it from the store, so a
// change on one node counts for the next registration on every node.
package groups
