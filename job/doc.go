// Package job is the domain of duehook: what a job is, the states it passes
// through and the rules that move it. It depends on the standard library only;
// every other package depends on it.
package job
