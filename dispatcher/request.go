package dispatcher

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
)

// newRequest returns the request of an attempt with a timestamp.
func (s *sender) newRequest(ctx context.Context, j *job.Job, number int, stamp job.Instant) (*retryablehttp.Request, error) {
	var body any // an empty []byte would be sent as a body of unknown length
	if len(j.Spec.Body) > 0 {
		body = j.Spec.Body
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, j.Spec.HTTPMethod(), j.Spec.Destination.Sent(), body)
	if err != nil {
		return nil, err
	}
	req.Header = contract.RequestHeader(j, number, stamp, s.agent)
	return req, nil
}

// complete adds the signature and the headers of the job's dialect.
func (s *sender) complete(ctx context.Context, h http.Header, j *job.Job, number int, stamp job.Instant) error {
	if err := s.sign(ctx, h, j, stamp); err != nil {
		return err
	}
	own := s.contract(j).Headers
	if own == nil {
		return nil
	}
	headers, err := own(ctx, j, number, stamp)
	for _, added := range headers {
		h.Set(added.Name, added.Value)
	}
	return err
}

// sign adds the signatures, if requests are signed.
func (s *sender) sign(ctx context.Context, h http.Header, j *job.Job, stamp job.Instant) error {
	if s.signer == nil {
		return nil
	}
	signature, err := s.signer.Sign(ctx, j.Topic, j.MessageID(), stamp.Time(), j.Spec.Body)
	if err != nil {
		return err
	}
	ofTopic, err := s.signer.Sign(ctx, j.Topic, contract.SignedTopic(j.Topic, j.MessageID()), stamp.Time(), nil)
	if err != nil {
		return err
	}
	h.Set(contract.HeaderSignature, signature)
	h.Set(contract.HeaderTopicSignature, ofTopic)
	return nil
}
