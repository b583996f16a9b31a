// Package camellia answers the calls of camellia-delay-queue's SDK, so that programs that use it need
// another address only. A message is a job in the pull queue of its topic.
//
// The contract is that of camellia-delay-queue 1.4: netease-im/camellia, docs/camellia-delay-queue.
package camellia
