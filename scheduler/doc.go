// Package scheduler serves all calls of clients: registering, changing, ending and reading
// jobs, topics, endpoints and figures. It holds the rules of these calls. Each front, such
// as an HTTP API, decodes a request, calls a Scheduler and encodes what it returns. Nothing
// registers or changes jobs on behalf of a client except through it.
//
// The rules of larger subjects have packages of their own: topics, groups, schedules,
// operations and explain.
package scheduler
