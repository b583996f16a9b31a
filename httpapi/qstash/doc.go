// Package qstash is the dialect of Upstash QStash: its SDKs work with the address and the token
// changed. It decodes calls, calls app and encodes answers. A message is a job, a URL
// group is a group, a schedule is a schedule; a queue and a flow-control key are topics.
//
// docs/migrate/qstash.md says what differs from the original.
package qstash
