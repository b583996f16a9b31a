// Package app is the application layer: all that clients may ask for. It registers,
// changes, ends and reads jobs, topics, endpoints and figures, and holds the rules of these
// calls. Each front, such as an HTTP API, decodes a request, calls an App and encodes what it
// returns. Nothing registers or changes jobs on behalf of a client except through it.
//
// The rules of larger subjects have packages of their own: topics, groups, schedules,
// operations and explain.
package app
