// Package dispatcher delivers due jobs: it pops hints off the ready list,
// claims the jobs they name, sends each to its URL and settles what came of
// it. It keeps nothing: whatever it loses, by a crash or a lost reply, becomes
// due again in the store.
//
// One pipeline serves one shard:
//
//	pop loop ── claims ──► workers ── results ──► settler
//
// The pop loop takes only what free workers can start at once. Workers hand
// results to the settler, which settles as many as have gathered while it was
// busy.
package dispatcher
