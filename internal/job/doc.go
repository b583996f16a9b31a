// Package job is the domain of duehook: jobs, their states, and the rules of their
// lifecycle. It depends on the standard library only; every other package depends on it.
package job
