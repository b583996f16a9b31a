// Package simulation runs the whole program in one process and in virtual time,
// with faults that a seed decides, and audits what came of it. It consists of
// tests; docs/reliability.md tells what it shows and how to replay a seed.
package simulation
