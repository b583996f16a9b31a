// Package storetest is the one conformance suite of duehook's stores. It is
// written against the store.Store interface and its comments only.
//
// A test holds on a store whose clock cannot be moved, such as Redis. So every
// duration in it is either long (it never ends within the test) or short (the
// test waits until the store says that it has passed, and asserts nothing
// before that). In-process stores run in a testing/synctest bubble, where the
// waiting costs no time.
package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/store"
)

// Options are what a test asks of the store that it opens.
type Options struct {
	// Retention is how long finished jobs are kept; zero: not at all.
	Retention time.Duration
	// Shards is a wish: stores that have one shard only ignore it.
	Shards int
}

// Harness plugs a store into the suite.
type Harness struct {
	// Open returns an empty store. The suite closes it, once.
	Open func(t testing.TB, o Options) store.Store
	// Bubble, if set, runs each test's body in a bubble of virtual time:
	// synctest.Test for stores whose goroutines and clock live in the process.
	// If nil, tests run in real time.
	Bubble func(t *testing.T, body func(t *testing.T))
	// Repeats is set when calls may have run before they give an answer,
	// because a reply was lost or is made to be. Then the tests accept answers
	// that tell of a repetition; what is stored must be the same.
	Repeats bool
	// ReadyList is set when the store has a ready list: due jobs are carried there, popped and
	// claimed.
	ReadyList bool
	// OneShard is set when the store has one shard, whatever a case asks for. Cases that are repeated over shards are
	// left out.
	OneShard bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	RunSome(t, h, "")
}

// RunSome runs the cases whose names begin with one of the prefixes.
func RunSome(t *testing.T, h Harness, prefixes ...string) {
	cases := slices.Concat(allCases, waitCases, workerCases)
	if h.ReadyList {
		cases = slices.Concat(allCases, readyListCases)
	}
	for _, c := range cases {
		selected := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(c.name, prefix) })
		if !selected || h.OneShard && strings.HasSuffix(c.name, ", over shards") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h.run(t, func(t *testing.T) { c.run(h.open(t, c.options, c.closes)) })
		})
	}
}

// run runs body in the harness's kind of time.
func (h Harness) run(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	if h.Bubble == nil {
		body(t)
		return
	}
	h.Bubble(t, body)
}

// testCase is one test on a store of its own.
type testCase struct {
	name    string
	options Options
	run     func(f *fixture)
	// closes: the test closes the store itself.
	closes bool
}

var allCases = slices.Concat(
	nameCases, groupCases, occurrenceCases, callbackCases, countCases, documentCases,
	registerCases, conflictCases, updateCases, replayCases, readCases, takeCases, claimCases, leaseCases, settleCases, staleCases,
	deadCases, keepCases, logCases, pullCases, capacityCases, twiceCases, closeCases,
	turnCases, turnCasesOverShards, topicCases, outlookCases, listCases, cursorCases, lookUpCases, orderCases, endpointCases, dueCases, pressureCases,
	priorityCases, limitCases, circuitCases, settingCases, pauseCases, concurrencyCases, rateCases, weightCases, messagingCases,
)

// readyListCases are asked only of stores with a ready list.
var readyListCases = slices.Concat(carryCases, hintCases, popCases, carrierCases, twiceListCases)
