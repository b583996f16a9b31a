// Package schedules registers jobs at the times of recurring schedules.
//
// A schedule is a document of the store. Package schedule decides what becomes of its
// occurrences; this package does it, in two steps: register the jobs, then write how far the
// schedule is. A write replaces the version that was read, so any node may decide. A job's id
// and uid follow from its schedule and its time: the next node finds what one registered before
// it died. An elected node looks after all schedules; calls of clients change a schedule on the
// node that they reach.
package schedules
