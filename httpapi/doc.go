// Package httpapi is the server of duehook's HTTP APIs: routes, authentication,
// limits, the map from errors to codes, the OpenAPI document, metrics and traces.
// It knows nothing of jobs. What a client can call is in dialects, one folder
// each; v1 is duehook's own.
package httpapi
