package v1

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// Inboxes is what the API needs of the inboxes. An *inbox.Manager is one.
type Inboxes interface {
	Statuses(ctx context.Context) []inbox.Status
	SetAside(ctx context.Context, name string, thatWait bool, after int64, limit int) ([]inbox.Row, error)
	Retry(ctx context.Context, name string, ids []int64) (int64, error)
	Drop(ctx context.Context, name string, ids []int64) (int64, error)
}

// rowsDraft selects failed rows.
type rowsDraft struct {
	ids []int64
	all bool
}

var rowsFields = decode.NewFieldSet(map[string]func(*rowsDraft, decode.Field){
	"all": func(d *rowsDraft, f decode.Field) { d.all = f.Boolean() },
	"ids": func(d *rowsDraft, f decode.Field) {
		for _, item := range f.Elements() {
			id, err := strconv.ParseInt(string(item.Raw), 10, 64)
			if err != nil {
				item.Fail("must be the id of a row")
			}
			d.ids = append(d.ids, id)
		}
	},
})

// listInboxes answers GET /v1/inboxes.
func (s *API) listInboxes(r *request) (jsonio.View, error) {
	return pageOfAll(r, s.Inboxes.Statuses(r.Context()), orderOfInbox, writeInbox)
}

// listRows answers GET /v1/inboxes/{inbox}/rows.
func (s *API) listRows(r *request) (jsonio.View, error) {
	after := int64(0)
	if r.query.Cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(r.query.Cursor)
		if err == nil {
			after, err = strconv.ParseInt(string(text), 10, 64)
		}
		if err != nil {
			return nil, store.ErrBadCursor
		}
	}
	rows, err := s.Inboxes.SetAside(r.Context(), r.Param("inbox"), r.query.rowsThatWait, after, r.query.Limit+1)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(rows) > r.query.Limit {
		rows = rows[:r.query.Limit]
		next = base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, rows[len(rows)-1].ID, 10))
	}
	return pageOf(rows, writeRow, next), nil
}

// changingRows makes a handler of a change of failed rows.
func changingRows(change func(Inboxes, context.Context, string, []int64) (int64, error)) handler {
	return func(s *API, r *request) (jsonio.View, error) {
		draft, err := readAll(r, maxSmall, rowsFields)
		switch {
		case err != nil:
			return nil, err
		case draft.all == (len(draft.ids) > 0):
			return nil, decode.Invalid("", `name the rows: write either ids or "all": true`)
		case len(draft.ids) > inbox.MaxIDs:
			return nil, decode.Invalid("/ids", fmt.Sprintf("must have at most %d ids", inbox.MaxIDs))
		}
		r.Target = r.Param("inbox")
		n, err := change(s.Inboxes, r.Context(), r.Param("inbox"), draft.ids)
		if err != nil {
			return nil, err
		}
		return func(w *jsonio.Writer) { w.Integer("rows", int(n)) }, nil
	}
}

func orderOfInbox(s *inbox.Status) string { return s.Name }

func writeInbox(w *jsonio.Writer, s *inbox.Status) {
	w.Text("name", s.Name)
	w.Text("database", s.Database)
	w.Member("topics", append([]string{}, s.Topics...))
	w.Boolean("reading", s.Reading)
	w.Integer("fresh", int(s.Fresh))
	w.Integer("waiting", int(s.Waiting))
	w.Integer("failed", int(s.Failed))
	w.TextOrNull("error", s.Error)
}

func writeRow(w *jsonio.Writer, r *inbox.Row) {
	w.Integer("id", int(r.ID))
	w.Text("key", r.Key)
	w.Text("request", r.Request)
	w.Instant("created_at", r.CreatedAt)
	jsonio.Nullable(w, "failed_at", orNull(&r.FailedAt), w.Instant)
	w.TextOrNull("error", r.Error)
	w.TextOrNull("waits_for", r.WaitsFor)
}
