// Package rig runs duehook for tests as its users do: it builds the binary,
// starts and ends its processes, and calls their API.
package rig
