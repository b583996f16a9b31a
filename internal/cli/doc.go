// Package cli is the commands that call a running server, over the Go client. They hold no rules:
// the server decides, and its errors are shown as they are.
package cli
