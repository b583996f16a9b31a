package v1

import (
	"context"
	"errors"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// PrepareRow checks the request of a row of an inbox as if it came to POST /v1/jobs. A job without an id gets the id.
func PrepareRow(ctx context.Context, a *app.App, request []byte, id string, from app.Origin) (inbox.Registration, error) {
	if err := jsonio.Check(request); err != nil {
		return inbox.Registration{}, &httpapi.Error{Code: httpapi.CodeMalformedJSON, Detail: "The request " + err.Error() + "."}
	}
	draft, errs := decode.Decode(request, draftFields)
	if draft.UID != nil {
		errs.Add("/uid", "is made of the key of the row: leave it out")
	}
	if draft.ID == nil || *draft.ID == "" {
		draft.ID = &id
	}
	if draft.Group != nil {
		fan, err := a.PrepareGroup(ctx, draft, from)
		return inbox.Registration{Fan: fan}, errs.Merge(err)
	}
	prepared, err := a.Prepare(draft, from)
	return inbox.Registration{Job: prepared}, errs.Merge(err)
}

// ExplainRow says what an error means for the one who wrote a row, and whether the row must be corrected.
func ExplainRow(err error) (text string, fault bool) {
	if restricted, ok := errors.AsType[*job.TopicError](err); ok {
		return httpapi.CodeForbidden.Name + ": The inbox may use the topics " + strings.Join(restricted.Allowed, ", ") + " only, and no groups.", true
	}
	e := httpapi.AsError(err)
	text = e.Code.Name + ": " + e.Detail
	if len(e.Fields) > 0 {
		text = e.Code.Name + ": " + e.Error()
	}
	return text, e.ClientsFault()
}
