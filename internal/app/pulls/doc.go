// Package pulls serves consumers of pull queues: it leases due jobs to them, waits for jobs that
// become due, and settles what consumers answer.
//
// A pull queue is a destination like others: its jobs lie in lanes, under the limits of their
// topic. A consumer's call takes from the lanes of its topics. A dispatcher gets such a job only after its
// lease has ended, and settles it as a failed attempt.
package pulls
