package store

// Bounds by bytes of what is read, sent or worked on at once, beside those by
// number: jobs with large bodies must not keep the rest waiting for longer than some
// milliseconds.
const (
	// BatchBytes is what the records of a batch take together, but for the last ones.
	BatchBytes = 1 << 20
	// SmallRecord is what a record may take that is not worth leaving for another
	// batch.
	SmallRecord = 2 << 10
)

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
