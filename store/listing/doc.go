// Package listing helps stores list: jobs, topics, endpoints and groups of dead
// letters, in pages whose work is bounded by count and by bytes.
//
// A store implements Source over its indexes, and gets filters, cursors and orders.
package listing
