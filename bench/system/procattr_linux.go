package system

import "syscall"

// procAttr ties a process's life to ours.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
