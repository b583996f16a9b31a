package testenv

import "syscall"

// procAttr ties the server to the test's process: clean-ups do not run when a
// test panics or times out, and a server left behind would never end.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
