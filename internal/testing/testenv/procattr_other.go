//go:build !linux

package testenv

import "syscall"

// procAttr: other systems cannot tie a process's life to its parent's.
func procAttr() *syscall.SysProcAttr { return nil }
