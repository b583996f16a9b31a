package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// Pulls serves consumers of pull queues. A *pulls.Manager does.
type Pulls interface {
	Pull(ctx context.Context, r pulls.Request) ([]pulls.Leased, error)
	Return(ctx context.Context, jobs []pulls.Leased)
	Ack(ctx context.Context, may pulls.May, receipts []string) ([]pulls.Result, error)
	Nack(ctx context.Context, may pulls.May, nacks []pulls.Nack) ([]pulls.Result, error)
	Extend(ctx context.Context, may pulls.May, receipts []string, lease time.Duration) ([]pulls.Result, error)
}

const (
	defaultPullLease = 30 * time.Second
	// maxPullTopics bounds the topics of one call.
	maxPullTopics = 32
	// pullWrite is how long a consumer may take to accept an answer.
	pullWrite = 30 * time.Second
)

// pullDraft is the body of a call for jobs.
type pullDraft struct {
	topics []string
	max    *int
	wait   *time.Duration
	lease  *time.Duration
}

func setLease[T any](of func(*T) **time.Duration) func(*T, decode.Field) {
	return func(d *T, f decode.Field) {
		lease := f.Duration()
		*of(d) = lease
		if *lease < job.MinPullLease || *lease > job.MaxPullLease {
			f.Fail("must be from 1s to 12h")
		}
	}
}

var (
	pullFields = decode.NewFieldSet(map[string]func(*pullDraft, decode.Field){
		"max": func(d *pullDraft, f decode.Field) {
			if d.max = f.Integer(); d.max != nil && (*d.max < 1 || *d.max > job.MaxPull) {
				f.Fail("must be from 1 to " + strconv.Itoa(job.MaxPull))
			}
		},
		"wait": func(d *pullDraft, f decode.Field) {
			if d.wait = f.Duration(); *d.wait < 0 || *d.wait > job.MaxPullWait {
				f.Fail("must be from 0s to 60s")
			}
		},
		"lease": setLease(func(d *pullDraft) **time.Duration { return &d.lease }),
		"topics": func(d *pullDraft, f decode.Field) {
			all := f.Elements()
			if len(all) > maxPullTopics {
				f.Fail(fmt.Sprintf("must have at most %d topics", maxPullTopics))
				return
			}
			for _, one := range all {
				if name := one.Text(); name != nil {
					d.topics = append(d.topics, asName(f.Errs, one.Pointer(), *name))
				}
			}
		},
	})
	pullTopicFields = pullFields.Only("max", "wait", "lease")
)

// pullTopic answers POST /v1/topics/{topic}/pull.
func (s *API) pullTopic(r *request) (jsonio.View, error) {
	d, err := readAll(r, maxSmall, pullTopicFields)
	if err != nil {
		return nil, err
	}
	d.topics = []string{r.Param("topic")}
	return s.pull(r, d)
}

// pullTopics answers POST /v1/pull.
func (s *API) pullTopics(r *request) (jsonio.View, error) {
	d, errs, err := read(r, maxSmall, pullFields)
	if err != nil {
		return nil, err
	}
	if len(d.topics) == 0 {
		errs.Add("/topics", "must name at least one topic")
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	for _, topic := range d.topics {
		if err := r.Topics().Allow(topic); err != nil {
			return nil, err
		}
	}
	return s.pull(r, d)
}

func (s *API) pull(r *request, d *pullDraft) (jsonio.View, error) {
	q := pulls.Request{Topics: d.topics, Max: 1, Lease: defaultPullLease}
	if d.max != nil {
		q.Max = *d.max
	}
	if d.wait != nil {
		q.Wait = *d.wait
	}
	if d.lease != nil {
		q.Lease = *d.lease
	}
	jobs, err := s.Pulls.Pull(r.Context(), q)
	if err != nil {
		return nil, err
	}
	if len(jobs) > 0 {
		r.OnUnwritten(func() { s.Pulls.Return(r.Context(), jobs) })
	}
	if err := r.WriteWithin(pullWrite); err != nil && !errors.Is(err, http.ErrNotSupported) { // the server's own deadline began with the wait
		return nil, err
	}
	return func(w *jsonio.Writer) {
		jsonio.List(w, "jobs", jobs, s.writeLeased)
	}, nil
}

// writeLeased writes a leased job with its headers and its body.
func (s *API) writeLeased(w *jsonio.Writer, l *pulls.Leased) {
	w.Text("receipt", l.Receipt)
	w.Integer("attempt", l.Attempt)
	w.Instant("lease_until", l.Until)
	w.In("job", func() { s.writeJob(w, &l.Job) })
	headers := jobjson.RequestHeaders(&l.Job.Spec)
	if trace := l.Job.Spec.Traceparent; trace != "" {
		headers = append(slices.Clip(headers), job.Header{Name: "Traceparent", Value: trace})
		if state := l.Job.Spec.Tracestate; state != "" {
			headers = append(headers, job.Header{Name: "Tracestate", Value: state})
		}
	}
	w.Headers("headers", headers)
	if l.Job.Spec.BodyForm != job.BodyNone {
		writeBody(w, &job.Body{Form: l.Job.Spec.BodyForm, Content: l.Job.Spec.Body})
	}
}

// receiptsDraft is the body of an acknowledgement or an extension.
type receiptsDraft struct {
	receipts []string
	lease    *time.Duration
}

func receiptsOf(f decode.Field) []decode.Field {
	all := f.Elements()
	if n := len(all); n == 0 || n > job.MaxPull {
		f.Fail(fmt.Sprintf("must have 1 to %d receipts", job.MaxPull))
		return nil
	}
	return all
}

var (
	extendFields = decode.NewFieldSet(map[string]func(*receiptsDraft, decode.Field){
		"receipts": func(d *receiptsDraft, f decode.Field) {
			for _, one := range receiptsOf(f) {
				if text := one.Text(); text != nil {
					d.receipts = append(d.receipts, *text)
				}
			}
		},
		"lease": setLease(func(d *receiptsDraft) **time.Duration { return &d.lease }),
	})
	ackFields  = extendFields.Only("receipts")
	nackFields = decode.NewFieldSet(map[string]func(*[]pulls.Nack, decode.Field){
		"receipts": func(d *[]pulls.Nack, f decode.Field) {
			for _, one := range receiptsOf(f) {
				var n pulls.Nack
				oneNackFields.Decode(one.Raw, one.Pointer(), &n, f.Errs)
				if n.Receipt == "" && one.Raw[0] == '{' {
					f.Errs.Add(one.Pointer()+"/receipt", "is required")
				}
				if n.Unused && (n.Dead || n.Delay != nil || n.Error != "") {
					f.Errs.Add(one.Pointer()+"/unused", "is not possible with delay, error or dead: no attempt was made")
				}
				*d = append(*d, n)
			}
		},
	})
	oneNackFields = decode.NewFieldSet(map[string]func(*pulls.Nack, decode.Field){
		"receipt": func(n *pulls.Nack, f decode.Field) { decode.SetText(&n.Receipt, f) },
		"delay": func(n *pulls.Nack, f decode.Field) {
			if n.Delay = f.Duration(); *n.Delay < 0 || *n.Delay > job.MaxDelay {
				f.Fail("must be from 0s to " + job.FormatDuration(job.MaxDelay))
			}
		},
		"error": func(n *pulls.Nack, f decode.Field) {
			if text := f.Text(); text != nil {
				n.Error = *text
			}
		},
		"dead":   func(n *pulls.Nack, f decode.Field) { n.Dead = f.Boolean() },
		"unused": func(n *pulls.Nack, f decode.Field) { n.Unused = f.Boolean() },
	})
)

// maxAnswers bounds the body of a call with answers: the texts of errors are cut.
const maxAnswers = 1 << 20

// readReceipts reads the body of an acknowledgement or an extension.
func readReceipts(r *request, fields decode.FieldSet[receiptsDraft]) (*receiptsDraft, error) {
	d, errs, err := read(r, maxAnswers, fields)
	if err != nil {
		return nil, err
	}
	if d.receipts == nil && errs.Err() == nil {
		errs.Add("/receipts", "is required")
	}
	return d, errs.Err()
}

// ackPulled answers POST /v1/pull/ack.
func (s *API) ackPulled(r *request) (jsonio.View, error) {
	d, err := readReceipts(r, ackFields)
	if err != nil {
		return nil, err
	}
	return results(d.receipts)(s.Pulls.Ack(r.Context(), r.Topics().Allow, d.receipts))
}

// extendPulled answers POST /v1/pull/extend.
func (s *API) extendPulled(r *request) (jsonio.View, error) {
	d, err := readReceipts(r, extendFields)
	if err != nil {
		return nil, err
	}
	lease := defaultPullLease
	if d.lease != nil {
		lease = *d.lease
	}
	return results(d.receipts)(s.Pulls.Extend(r.Context(), r.Topics().Allow, d.receipts, lease))
}

// nackPulled answers POST /v1/pull/nack.
func (s *API) nackPulled(r *request) (jsonio.View, error) {
	d, errs, err := read(r, maxAnswers, nackFields)
	if err != nil {
		return nil, err
	}
	if len(*d) == 0 && errs.Err() == nil {
		errs.Add("/receipts", "is required")
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	receipts := make([]string, len(*d))
	for i := range *d {
		receipts[i] = (*d)[i].Receipt
	}
	return results(receipts)(s.Pulls.Nack(r.Context(), r.Topics().Allow, *d))
}

// results shows the results of receipts, in their order.
func results(receipts []string) func([]pulls.Result, error) (jsonio.View, error) {
	return func(all []pulls.Result, err error) (jsonio.View, error) {
		if err != nil {
			return nil, err
		}
		at := -1
		return func(w *jsonio.Writer) {
			jsonio.List(w, "results", all, func(w *jsonio.Writer, result *pulls.Result) {
				at++
				w.Text("receipt", receipts[at])
				w.Text("result", string(*result))
			})
		}, nil
	}
}
