// Package inbox has the examples of docs/inbox.md: an order and its timeout in one transaction.
package inbox
