// Package v1 is version 1 of duehook's HTTP API: it decodes requests strictly,
// calls app, and encodes the results as JSON. It contains no rules.
//
// The table in routes.go is the one list of its calls. The tests compare it with
// the OpenAPI document.
package v1
