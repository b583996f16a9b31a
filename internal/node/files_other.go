//go:build !unix

package node

// openFiles is unknown: the system has no such limit.
func openFiles() (limit uint64, known bool) { return 0, false }
