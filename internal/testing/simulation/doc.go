// Package simulation runs the whole program in one process and in virtual time,
// with faults that a seed decides, and audits what came of it. It consists of
// tests; docs/reliability.md has the results and explains how to replay a seed.
package simulation
