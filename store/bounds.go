package store

import "github.com/duehook/duehook/internal/job"

// Bounds by bytes of a batch or page, beside those by count: jobs with large bodies must
// not delay the others for more than some milliseconds.
const (
	// BatchBytes bounds the records of a batch. The last ones may exceed it.
	BatchBytes = 1 << 20
	// SmallRecord is the size of a record too small to be left for another batch.
	SmallRecord = 2 << 10
	// PageBytes bounds the jobs of a page. The last one may exceed it.
	PageBytes = 1 << 20
)

// SizeOf is the approximate size of a job in memory or in an answer, in bytes.
func SizeOf(j *job.Job) int {
	bytes := SizeOfSpec(&j.Spec)
	if a := j.LastAttempt; a != nil {
		bytes += len(a.ResponseBody) + sizeOfHeaders(a.ResponseHeaders)
	}
	return bytes
}

// SizeOfSpec is the approximate size of the content of a job, in bytes.
func SizeOfSpec(s *job.Spec) int {
	bytes := len(s.Body) + len(s.Destination) + len(s.ExpectBody) + sizeOfHeaders(s.Headers)
	if s.Dialect != nil {
		bytes += len(s.Dialect.Data)
	}
	for _, e := range job.CallbackEvents {
		if to := s.Callbacks.On(e); to != nil {
			bytes += len(to.Destination) + sizeOfHeaders(to.Headers)
		}
	}
	return bytes
}

func sizeOfHeaders(headers []job.Header) (bytes int) {
	for _, h := range headers {
		bytes += len(h.Name) + len(h.Value)
	}
	return bytes
}

// Batch returns how many of the first elements of a list of n make a batch: up to most,
// and up to BatchBytes, but at least one. size returns the size of an element.
func Batch(n, most int, size func(i int) int) int {
	n = min(n, most)
	bytes := 0
	for i := range n {
		if bytes += size(i); bytes > BatchBytes && i > 0 {
			return i
		}
	}
	return n
}
