package store

import "github.com/duehook/duehook/job"

// Bounds of the log of a job's attempts, of which the latest are kept. Redis writes the
// whole log at each attempt. An attempt takes about 2,200 bytes at most, so that some
// dozens are kept however long the answers are.
const (
	MaxLog      = 128
	MaxLogBytes = 64 << 10
)

// KeptLog is the part of a log that is kept. It shares the memory of log.
func KeptLog(log []job.Attempt) []job.Attempt {
	log = log[max(0, len(log)-MaxLog):]
	bytes := 0
	for i := len(log) - 1; i >= 0; i-- {
		if bytes += logBytes(&log[i]); bytes > MaxLogBytes {
			return log[i+1:]
		}
	}
	return log
}

// logBytes is about what an attempt takes.
func logBytes(a *job.Attempt) int {
	const numbers, header = 100, 7
	n := numbers + len(a.Error) + len(a.Reason) + len(a.ResponseBody)
	for _, h := range a.ResponseHeaders {
		n += header + len(h.Name) + len(h.Value)
	}
	return n
}
