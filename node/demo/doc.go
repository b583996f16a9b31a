// Package demo shows duehook at work and checks what it shows. Two stories run
// on whole duehooks within the process, over the real HTTP API and with real
// callbacks, on clocks that run faster than the machine's.
package demo
