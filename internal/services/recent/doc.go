// Package recent knows what was attempted lately, on all nodes of a store: how
// many attempts of each minute of the last hour went well, how late they began,
// and how endpoints took them.
//
// Each node counts its own attempts in memory. When there are other nodes, it
// writes what it has counted into two documents of its own, every ten seconds in
// which there was an attempt, and reads those of the others when it is asked. So a
// system that attempts nothing writes nothing, and the figures of a node that
// died are there for as long as they count. They are for people who watch: what
// a node has not written when it dies is lost.
package recent
