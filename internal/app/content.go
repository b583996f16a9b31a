package app

import (
	"github.com/cespare/xxhash/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/strictjson"
	"github.com/duehook/duehook/store/encoding"
)

// fingerprint is that of a registration: of what d gives, which s has without the defaults of the topic.
// The order of members in a JSON body and white space between its tokens do not count.
func fingerprint(d *job.Draft, s *job.Spec) job.Fingerprint {
	own := *s
	own.Body = nil
	if d.Destination == nil && (d.Pull == nil || !*d.Pull) {
		own.Destination = "" // of the topic
	}
	b := encoding.AppendSpec(make([]byte, 0, 512), &own)
	// These may be given as what the Spec has without them, which keeps defaults away.
	for _, given := range [...]bool{d.Retry != nil, d.Priority != nil, d.Callbacks != nil, d.Spread != nil} {
		b = append(b, '-')
		if given {
			b[len(b)-1] = '+'
		}
	}
	if s.BodyForm == job.BodyJSON {
		b = strictjson.AppendSorted(b, s.Body)
	} else {
		b = append(b, s.Body...)
	}
	return job.Fingerprint(xxhash.Sum64(b))
}
