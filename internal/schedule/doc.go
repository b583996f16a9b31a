// Package schedule computes when a recurring schedule fires: from a cron
// expression or an interval, a time zone, and rules for local times that daylight
// saving time omits or repeats. It is pure: no clock, no I/O, no machine's zone data.
package schedule
