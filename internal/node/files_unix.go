//go:build unix

package node

import "syscall"

// openFiles is how many files a process of this user may open. The runtime of Go raises the soft
// limit to the hard one.
func openFiles() (limit uint64, known bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Cur), true //nolint:unconvert // it is signed on some systems
}
