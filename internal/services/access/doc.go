// Package access authenticates callers of the HTTP API by API keys, enforces the scope
// and the rate of a key, and writes the audit log.
//
// Keys are in the settings and in the store that nodes share. Stored keys can be created
// and revoked while duehook runs. Authentication needs no I/O: Keys have all of them, and
// read the stored ones every few seconds.
package access
