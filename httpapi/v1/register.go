package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
)

// maxBatch is the most jobs that one batch may hold.
const maxBatch = app.MaxJobs

// originOf is what the headers of a request say about the jobs that it registers.
func originOf(r *request) (app.Origin, error) {
	key, err := idempotencyKey(r)
	if err != nil {
		return app.Origin{}, err
	}
	return app.Origin{Key: key, Trace: r.Trace(), Topics: r.Topics()}, nil
}

// idempotencyKey is the key of a call, or empty.
func idempotencyKey(r *request) (string, error) {
	h := r.Request.Header
	field, err := singleHeader(h, headerIdempotencyKey)
	if err != nil || len(h.Values(headerIdempotencyKey)) == 0 {
		return "", err
	}
	return keyOf(field)
}

// keyOf reads an Idempotency-Key. Its draft standard writes it as a string of structured fields (RFC 9651),
// with parameters perhaps; most clients write the key alone.
func keyOf(field string) (string, error) {
	if !strings.HasPrefix(field, `"`) {
		return field, checkName(headerIdempotencyKey, field)
	}
	var key []byte
	for i := 1; i < len(field); i++ {
		switch field[i] {
		case '"':
			if rest := strings.TrimLeft(field[i+1:], " "); rest != "" && rest[0] != ';' {
				return "", decode.Invalid(headerIdempotencyKey, "must be one string in double quotes")
			}
			return string(key), checkName(headerIdempotencyKey, string(key))
		case '\\':
			if i++; i == len(field) || field[i] != '"' && field[i] != '\\' {
				return "", decode.Invalid(headerIdempotencyKey, `has a backslash that escapes neither " nor a backslash`)
			}
		}
		key = append(key, field[i])
	}
	return "", decode.Invalid(headerIdempotencyKey, "begins with a double quote and does not end with one")
}

// register answers POST /v1/jobs.
func (s *API) register(r *request) (jsonio.View, error) {
	draft, errs, from, err := s.readDraft(r)
	if err == nil && draft.Group != nil {
		return s.registerGroup(r, draft, errs, from)
	}
	var reg app.Prepared
	if err == nil {
		reg, err = s.prepare(draft, errs, from)
	}
	if err != nil {
		s.App.Refuse(1, clientsFault(err))
		return nil, err
	}
	r.Target = reg.Key().String()
	registered, err := s.registerAll(r, reg)
	if err != nil {
		return nil, err
	}
	one := &registered[0]
	if err := app.Refusal(one); err != nil {
		return nil, err
	}
	if r.query.dryRun {
		return func(w *jsonio.Writer) {
			s.writeRegistered(w, one)
			w.Boolean("dry_run", true)
		}, nil
	}
	isNew := one.Outcome == store.Created
	if isNew {
		r.SetLocation(jobjson.Path(one.Job.Key))
	}
	r.setVersion(jobjson.Version(&one.Job))
	r.created(isNew)
	return jsonio.Shown(s.writeRegistered, one), nil
}

// registerAll registers jobs, or says in a dry run what would become of them.
func (s *API) registerAll(r *request, jobs ...app.Prepared) ([]store.Registered, error) {
	if r.query.dryRun {
		r.Target = "dry run"
	}
	return s.App.RegisterUnless(r.Context(), r.query.dryRun, jobs...)
}

// clientsFault reports whether the client has to correct its request.
func clientsFault(err error) bool {
	return httpapi.AsError(err).ClientsFault()
}

// readDraft reads the registration of one job, or of a group's jobs.
func (s *API) readDraft(r *request) (*job.Draft, *decode.Errors, app.Origin, error) {
	from, err := originOf(r)
	if err != nil {
		return nil, nil, from, err
	}
	data, err := r.body(s.maxRequest())
	if err != nil {
		return nil, nil, from, err
	}
	draft, errs := decode.Decode(data, draftFields)
	return draft, errs, from, nil
}

// maxRequest is how large the registration or change of one job may be: twice
// the limit of its body, for base64 and for escaped text, and the envelope.
func (s *API) maxRequest() int64 { return MaxRequest(s.App.Bounds()) }

// MaxRequest is the maxRequest of a server with these bounds.
func MaxRequest(b job.Bounds) int64 { return 2*int64(b.MaxBody) + 64<<10 }

// prepare checks the registration of one job. What it returns shares no memory with the
// request.
func (s *API) prepare(draft *job.Draft, errs *decode.Errors, from app.Origin) (app.Prepared, error) {
	reg, err := s.App.Prepare(draft, from)
	return reg, errs.Merge(err)
}

// registerBatch answers POST /v1/jobs/batch. Each job is judged by itself.
func (s *API) registerBatch(r *request) (jsonio.View, error) {
	// The key could stand for one job only.
	if len(r.Request.Header.Values(headerIdempotencyKey)) > 0 {
		return nil, decode.Invalid(headerIdempotencyKey, "is not supported for a batch; give each job an id")
	}
	from, err := originOf(r)
	if err != nil {
		return nil, err
	}
	data, err := r.body(s.MaxBatchBytes)
	if err != nil {
		return nil, err
	}
	jobs, err := batchJobs(data)
	if err != nil {
		return nil, err
	}

	r.Target = strconv.Itoa(len(jobs)) + " jobs"
	items := make([]item, len(jobs))
	regs := make([]app.Prepared, 0, len(jobs))
	named := 0
	for i, raw := range jobs {
		before := len(regs)
		if regs, err = s.prepareItem(r.Context(), raw, from, regs, &items[i], decode.MaxErrors-named); err != nil {
			e := httpapi.AsError(err)
			s.App.Refuse(1, e.ClientsFault())
			if !e.ClientsFault() {
				return nil, err
			}
			items[i].err = e
			named += len(e.Fields)
		}
		if len(regs) > maxBatch {
			return nil, decode.Invalid("/jobs", fmt.Sprintf("must make at most %d jobs, members of groups included", maxBatch))
		}
		items[i].jobs = len(regs) - before
	}
	var registered []store.Registered
	if len(regs) > 0 {
		if registered, err = s.registerAll(r, regs...); err != nil {
			return nil, err
		}
	}
	for i := range items {
		items[i].registered, registered = registered[:items[i].jobs], registered[items[i].jobs:]
	}
	return func(w *jsonio.Writer) {
		jsonio.List(w, "results", items, s.writeItem)
		if r.query.dryRun {
			w.Boolean("dry_run", true)
		}
	}, nil
}

// item is one of a batch: what is wrong with it, or what became of it.
type item struct {
	err        error
	fan        *app.FanOut // the item names a group
	jobs       int         // its registrations
	registered []store.Registered
}

// prepareItem adds the registrations of an item of a batch to regs. It names so many errors, at least one.
func (s *API) prepareItem(
	ctx context.Context, raw json.RawMessage, from app.Origin, regs []app.Prepared, to *item, most int,
) ([]app.Prepared, error) {
	draft, errs := decode.Part(raw, draftFields, most)
	if draft.Group == nil {
		reg, err := s.prepare(draft, errs, from)
		if err == nil {
			regs = append(regs, reg)
		}
		return regs, err
	}
	f, err := s.prepareGroup(ctx, draft, errs, from)
	if err != nil {
		return regs, err
	}
	to.fan = f
	return append(regs, f.Jobs...), nil
}

func batchJobs(data []byte) ([]json.RawMessage, error) {
	b, errs := decode.Decode(data, batchFields)
	switch err := errs.Err(); {
	case err != nil:
		return nil, err
	case b.jobs == nil:
		return nil, decode.Invalid("/jobs", "is required")
	case len(b.jobs) == 0:
		return nil, decode.Invalid("/jobs", "must have at least one job")
	case b.number > maxBatch:
		return nil, decode.Invalid("/jobs", fmt.Sprintf("must have at most %d jobs, not %d", maxBatch, b.number))
	}
	return b.jobs, nil
}

// writeItem writes the answer to an item of a batch.
func (s *API) writeItem(w *jsonio.Writer, i *item) {
	err, isNew := i.err, false
	var fan fanOut
	switch {
	case err != nil:
	case i.fan != nil:
		fan = fannedOut(i.fan, i.registered)
		err, isNew = fan.err, fan.isNew
	default:
		err, isNew = app.Refusal(&i.registered[0]), i.registered[0].Outcome == store.Created
	}
	switch {
	case err != nil:
		p := httpapi.AsError(err).Problem()
		w.Integer("status", p.Status)
		w.Member("error", p)
	case isNew:
		w.Integer("status", http.StatusCreated)
	default:
		w.Integer("status", http.StatusOK)
	}
	switch {
	case i.fan != nil:
		s.writeFanOut(w, &fan)
	case err == nil:
		w.Text("result", app.OutcomeNames[i.registered[0].Outcome])
		jsonio.Part(w, "job", &i.registered[0].Job, s.writeJob)
	}
}
