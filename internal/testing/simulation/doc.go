// Package simulation runs the whole program in one process and in virtual time,
// with faults from a seed, and audits the result. It consists of
// tests; docs/reliability.md has the results and explains how to replay a seed.
package simulation
