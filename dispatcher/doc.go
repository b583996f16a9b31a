// Package dispatcher delivers due jobs: it pops hints from the ready list, claims their
// jobs, sends them to their URLs, and settles the outcomes. It has no state of its own:
// a job that it loses by a crash or a lost reply becomes due again in the store.
//
// One pipeline serves one shard:
//
//	pop loop ── claims ──► workers ── results ──► settler
//
// The pop loop takes as many jobs as free workers can start. Workers pass results to the
// settler, which settles all that arrived during its last call.
package dispatcher
