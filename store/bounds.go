package store

import "github.com/duehook/duehook/job"

// Bounds by bytes of what is read, sent or worked on at once, beside those by
// number: jobs with large bodies must not keep the rest waiting for longer than some
// milliseconds.
const (
	// BatchBytes is what the records of a batch take together, but for the last ones.
	BatchBytes = 1 << 20
	// SmallRecord is what a record may take that is not worth leaving for another
	// batch.
	SmallRecord = 2 << 10
	// PageBytes is what the jobs of a page take together, but for the last one.
	PageBytes = 4 << 20
)

// SizeOf is what a job takes in memory or in an answer, more or less.
func SizeOf(j *job.Job) int {
	bytes := len(j.Spec.Body) + len(j.Spec.Destination) + len(j.Spec.ExpectBody) + sizeOfHeaders(j.Spec.Headers)
	if a := j.LastAttempt; a != nil {
		bytes += len(a.ResponseBody) + sizeOfHeaders(a.ResponseHeaders)
	}
	return bytes
}

func sizeOfHeaders(headers []job.Header) (bytes int) {
	for _, h := range headers {
		bytes += len(h.Name) + len(h.Value)
	}
	return bytes
}

// Batch is the length of the longest start of a list of n that takes no more than
// most elements and BatchBytes, one at least; size tells what an element takes.
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
