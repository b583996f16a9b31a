// Package demo shows duehook at work and checks what it shows. Two stories run on a duehook in the
// process, with its store on disk, over the real HTTP API and with real deliveries. The clock of
// package dev jumps from one event to the next.
package demo
