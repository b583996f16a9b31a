// Package node makes one running duehook out of its parts: it opens the store,
// connects API, carrier and dispatcher to it, and stops them in order.
package node
