package dispatcher

import (
	"bytes"
	"errors"
	"mime"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/internal/kit/strictjson"
)

// armAgain returns the outcome of an answer that arms the job again after a wait. class is
// the error of the attempt; empty: none. Callbacks are not armed again. A job that was armed
// again as often as it may be is delivered for the last time.
func (s *sender) armAgain(j *job.Job, a *contract.Answer, after time.Duration) (o job.Outcome, class string) {
	delivered, failed := job.Outcome{Kind: job.OutcomeDelivered}, job.Outcome{Kind: job.OutcomeFailed}
	switch {
	case j.Spec.Reports != "":
		return delivered, ""
	case a.Lost != "":
		return failed, a.Lost
	case a.Cut:
		return failed, classTooLarge
	}
	body, ok := nextBody(a)
	if !ok {
		return failed, classAgainBody
	}
	next, err := j.Again(after, body, s.limits)
	switch {
	case errors.Is(err, job.ErrMaxRounds):
		s.log.Warn("a job is not armed again: it has reached the limit of rounds (--max-rounds)", "topic", j.Topic, "id", j.ID, "rounds", j.Spec.Rounds())
		return delivered, classAgainLimit
	case errors.Is(err, job.ErrAgainBody):
		return failed, classAgainRefused
	case errors.Is(err, job.ErrBodyTooLarge):
		return failed, classTooLarge
	case err != nil:
		return failed, classAgainBody
	}
	delivered.Again = &next
	return delivered, ""
}

// nextBody reads the body of the next round from a JSON object, by the rules of a
// registration's. It is nil if the answer has none, or is not JSON by its type. It returns
// false for an answer that a registration would not take: no valid JSON object, or one with
// other members beside body.
func nextBody(a *contract.Answer) (*job.Body, bool) {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if len(a.Body) == 0 || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, true
	}
	text := strictjson.Trim(a.Body)
	if strictjson.Check(text) != nil || text[0] != '{' {
		return nil, false
	}
	var body *job.Body
	members, given := 0, 0
	for quoted, value := range strictjson.Members(text) {
		members++
		if name, _ := strictjson.Unquote(quoted); name != "body" {
			continue
		}
		given++
		if body = (&job.Body{}); value[0] != 'n' { // not null
			body = &job.Body{Form: job.BodyJSON, Content: bytes.Clone(value)}
		}
	}
	return body, given == 0 || members == 1
}
