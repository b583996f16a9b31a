// Package access decides who may call the HTTP API. It keeps the API keys,
// tells from a request's Authorization header which of them is calling, what
// it may do and how often, and writes down who changed what.
//
// Keys come from the settings and from the store that the nodes share; the
// latter can be added and revoked while duehook runs. Asking who is calling
// takes no I/O: a Keyring holds all keys and reads the stored ones anew every
// few seconds.
package access
