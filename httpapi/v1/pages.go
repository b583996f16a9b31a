package v1

import (
	"encoding/base64"
	"fmt"
	"math"
	"sort"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/store"
)

// The parameters of every list.
var pageQuery = []parameter{limitParam, cursorParam}

// pageOf is a page of a list. next is the cursor of the next page; empty: there is none.
func pageOf[T any](all []T, write func(*jsonio.Writer, *T), next string) jsonio.View {
	return func(w *jsonio.Writer) {
		jsonio.List(w, "data", all, write)
		w.TextOrNull("next_cursor", next)
	}
}

// pageOfAll is the page that the request asks for of a list that is read whole. key orders
// the list, and differs between its entries.
func pageOfAll[T any](r *request, all []T, key func(*T) string, write func(*jsonio.Writer, *T)) (jsonio.View, error) {
	after, err := base64.RawURLEncoding.DecodeString(r.query.Cursor)
	if err != nil {
		return nil, store.ErrBadCursor
	}
	sort.SliceStable(all, func(i, j int) bool { return key(&all[i]) < key(&all[j]) })
	begin := 0
	for begin < len(all) && r.query.Cursor != "" && key(&all[begin]) <= string(after) {
		begin++
	}
	all = all[begin:]
	next := ""
	if len(all) > r.query.Limit {
		all = all[:r.query.Limit]
		next = base64.RawURLEncoding.EncodeToString([]byte(key(&all[len(all)-1])))
	}
	return pageOf(all, write, next), nil
}

// The orders of lists that are read whole.

func orderOfAttempt(a *job.Attempt) string { return fmt.Sprintf("%020d-%010d", a.StartedAt, a.Number) }

// orderOfRun puts the last run first.
func orderOfRun(r *schedules.Run) string {
	return fmt.Sprintf("%020d-%s", math.MaxInt64-int64(r.Ended), r.UID)
}

func orderOfRule(r *alerts.Rule) string { return r.Name }

func orderOfAlert(a *alerts.Alert) string {
	return a.Rule + "\x00" + a.Topic + "\x00" + a.Endpoint + "\x00" + a.Node
}

func orderOfMember(m *groups.Member) string { return m.Name }

// orderOfKey puts keys of the settings first.
func orderOfKey(k *access.Key) string {
	first := "0"
	if k.Stored {
		first = "1"
	}
	return first + k.Name + "\x00" + k.ID
}
