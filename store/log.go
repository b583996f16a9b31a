package store

import "github.com/duehook/duehook/internal/job"

// Bounds of the log of a job's attempts. Stores keep the latest attempts. An attempt takes
// at most about 2,200 bytes, so the log holds dozens however long the answers are. Redis
// writes the whole log at each attempt. A full store keeps less: see rules.LogBytes.
const (
	MaxLog      = 128
	MaxLogBytes = 64 << 10
)

// KeptLog returns the part of a log that stores keep, of up to most bytes. It shares the memory of log.
func KeptLog(log []job.Attempt, most int) []job.Attempt {
	log = log[max(0, len(log)-MaxLog):]
	bytes := 0
	for i := len(log) - 1; i >= 0; i-- {
		if bytes += logBytes(&log[i]); bytes > most {
			return log[i+1:]
		}
	}
	return log
}

// logBytes is the approximate size of an attempt.
func logBytes(a *job.Attempt) int {
	const numbers, header = 100, 7
	n := numbers + len(a.Error) + len(a.Reason) + len(a.ResponseBody)
	for _, h := range a.ResponseHeaders {
		n += header + len(h.Name) + len(h.Value)
	}
	return n
}
