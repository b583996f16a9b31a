// Package listing reads the whole of a store: jobs, topics, endpoints and groups of dead
// letters in pages whose work is bounded by count and by bytes, and counts of jobs.
//
// It needs the calls of store.Reader, which are about one shard each. Filters, cursors, orders
// and the merging of shards are here, once for every store.
package listing
