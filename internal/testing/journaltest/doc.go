// Package journaltest opens journals for tests: on SQLite and on servers that a package's
// tests share, with helpers that make and follow jobs. The tests of store/journal and
// of store/ledger use it.
package journaltest
