package rig

import "syscall"

// procAttr ties a node's life to the test's process.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
