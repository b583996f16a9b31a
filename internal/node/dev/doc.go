// Package dev is what `duehook dev` has beside a server: a clock that clients turn, and sinks
// that take deliveries in the process.
//
// Clock is the time of the whole node. Dev.Advance moves it from one due time to the next, and
// stands still at each until everything due then has happened. docs/adr/0044-dev-clock.md has the
// reasons.
package dev
