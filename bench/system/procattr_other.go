//go:build !linux

package system

import "syscall"

// procAttr: other systems cannot tie a process's life to its parent's.
func procAttr() *syscall.SysProcAttr { return nil }
