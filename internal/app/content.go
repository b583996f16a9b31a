package app

import (
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store/encoding"
)

// forms are buffers for what fingerprints are made of: as large as the bodies, and not needed afterwards.
var forms = sync.Pool{New: func() any { return new([]byte) }}

// maxForm is the size up to which buffers are kept.
const maxForm = 256 << 10

// fingerprint is that of a registration: of what d gives, which s has without the defaults of the topic.
// The order of members in a JSON body and white space between its tokens do not count.
func fingerprint(d *job.Draft, s *job.Spec) job.Fingerprint {
	own := *s
	own.Body = nil
	if d.Destination == nil && (d.Pull == nil || !*d.Pull) {
		own.Destination = "" // of the topic
	}
	form := forms.Get().(*[]byte)
	defer forms.Put(form)
	b := d.AppendKept(encoding.AppendSpec((*form)[:0], &own))
	if s.BodyForm == job.BodyJSON {
		b = jsonio.AppendSorted(b, s.Body)
	} else {
		b = append(b, s.Body...)
	}
	if cap(b) <= maxForm {
		*form = b
	}
	return job.Fingerprint(xxhash.Sum64(b))
}
