// Package torture is the fault harness: seeded runs of real nodes under a mixed
// load, each with one kind of fault. After each run, an audit compares the answers
// to clients with the store and the receivers.
//
//	make soak PART=torture RUNS=40 BUDGET=4h                 every fault, many seeds
//	make soak PART=torture RUNS=3 FAULT=sigstop SEED=42      the seeds 42, 43 and 44 of one
//
// A seed decides on the load and on the faults, their kinds, victims and
// times. What the machine's scheduler does in between it cannot decide.
package torture
