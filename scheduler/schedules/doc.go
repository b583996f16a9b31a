// Package schedules registers jobs at the times of recurring schedules.
//
// A schedule is a document of the store. Package schedule decides what becomes of its
// occurrences; this package does it, in three steps: write the intent to the document,
// register the jobs, write the result. Each write replaces the version that was read, so
// any node may take any step, and the next one finishes an intent that a node left. A
// job's id and uid follow from its occurrence: registering it again changes nothing. An
// elected node looks after all schedules; calls of clients change a schedule on the node
// that they reach.
package schedules
