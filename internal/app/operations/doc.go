// Package operations changes many jobs at once: the jobs of a filter are
// cancelled, run, replayed or rescheduled at a rate, across restarts of nodes.
//
// An operation is a document in the store, in which its progress is written
// about once a second. One node at a time works on it, the one that the document
// names; when the document does not change any more for a while, another node
// takes it over. That needs no common clock: each write has to be of the version
// that was read. What a node did after its last write is looked at again by the
// next one, and found to be done: no job is changed twice, only counts may miss
// it.
package operations
