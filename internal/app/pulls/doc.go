// Package pulls serves consumers of pull queues: it leases due jobs to them, waits for jobs that
// become due, and settles what consumers answer.
//
// A pull queue is a destination like others: its jobs lie in lanes, under the limits of their
// topic. No dispatcher gets them. A consumer's call carries from the lanes of its topics and
// claims what was carried. A lease that ends is carried by the carrier and settled by a
// dispatcher, as a failed attempt.
package pulls
