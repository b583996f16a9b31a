// Package httpapi is duehook's HTTP API, version 1: it turns requests into
// calls of a store and answers, or errors, into JSON. It knows nothing of how
// jobs are kept or delivered.
//
// The table in routes.go is the one list of calls: the router is built from
// it, and the OpenAPI document is held against it.
package httpapi
