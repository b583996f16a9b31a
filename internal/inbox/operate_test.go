package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestTroubles: failed rows, and rows that are read and cannot be deleted for long, are troubles on the node that reads.
func TestTroubles(t *testing.T) {
	b := newBench(t, engines[0])
	b.put("{")
	o := inbox.WithStep(inbox.WithStuck(b.options(), time.Second), func(_, step string) error {
		if step == "delete" && b.count("request LIKE '%shop%'") > 0 {
			return errors.New("deleting fails")
		}
		return nil
	})
	m, _ := b.start(o)
	has := func(known bool, want ...string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() bool {
			all, is := m.Troubles()
			return is == known && slices.Equal(all, want)
		}, fmt.Sprintf("the troubles are %q", want))
	}
	has(true, "orders: rows have failed")
	b.put(`{"topic":"t","id":"a","url":"https://shop.example/"}`)
	has(true, "orders: rows have failed", "orders: it cannot be read")
	s := m.Statuses(t.Context())[0]
	must.Equal(t, "the status", fmt.Sprintf("%d %d %s", s.Fresh, s.Failed, s.Error), "1 1 deleting fails")
	other, err := inbox.New(b.options())
	must.OK(t, err)
	if all, known := other.Troubles(); len(all) > 0 || known {
		t.Errorf("a node that does not read knows %q", all)
	}
}

// TestRightsOfStatus: a node that does not read an inbox says in its status what the node that reads is not allowed.
func TestRightsOfStatus(t *testing.T) {
	b := newBench(t, engines[0])
	for _, statement := range []string{"CREATE ROLE without_delete LOGIN", "GRANT SELECT, UPDATE ON duehook_inbox TO without_delete"} {
		_, err := b.db.ExecContext(t.Context(), statement)
		must.OK(t, err)
	}
	o := b.options()
	status := func() string {
		t.Helper()
		m, err := inbox.New(o)
		must.OK(t, err)
		return m.Statuses(t.Context())[0].Error
	}
	must.Equal(t, "the error of an inbox with all rights", status(), "")
	o.Inboxes[0].URL = strings.Replace(o.Inboxes[0].URL, "postgres@", "without_delete@", 1)
	if err := status(); !strings.Contains(err, "permission denied") {
		t.Errorf("without the right to delete rows, the error is %q", err)
	}
}

// TestOperate: rows that failed are listed in pages, read again and dropped; others stay as they are.
func TestOperate(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		o := b.options()
		o.Inboxes[0].Topics = job.TopicSet{"t"}
		const early = `{"topic":"other","id":"early","url":"https://shop.example/"}`
		b.put(early)
		for range 4 {
			b.put(`{"topic":"other","url":"https://shop.example/"}`)
		}
		_, stop := b.start(o)
		b.drained(open)
		stop()
		m, err := inbox.New(o) // of a node that does not read
		must.OK(t, err)
		b.put(`{"topic":"t","id":"fresh","url":"https://shop.example/"}`)
		_, err = b.db.ExecContext(t.Context(), "UPDATE duehook_inbox SET waits_for = 't' WHERE failed_at IS NULL")
		must.OK(t, err)

		s := m.Statuses(t.Context())
		must.Equal(t, "inboxes", len(s), 1)
		must.Equal(t, "counts", fmt.Sprint(s[0].Fresh, s[0].Waiting, s[0].Failed, s[0].Error), "0 1 5")
		first, err := m.SetAside(t.Context(), "orders", false, 0, 2)
		must.OK(t, err)
		must.Equal(t, "the first page", len(first), 2)
		must.Equal(t, "the request", first[0].Request, early)
		if first[0].Error == "" || first[0].FailedAt == 0 || first[0].CreatedAt == 0 || first[0].Key == "" {
			t.Errorf("the row is %+v", first[0])
		}
		rest, err := m.SetAside(t.Context(), "orders", false, first[1].ID, 10)
		must.OK(t, err)
		must.Equal(t, "the next page", len(rest), 3)
		waits, err := m.SetAside(t.Context(), "orders", true, 0, 10)
		must.OK(t, err)
		must.Equal(t, "rows that wait", len(waits), 1)
		must.Equal(t, "it waits for", waits[0].WaitsFor, "t")

		change := func(what string, call func(context.Context, string, []int64) (int64, error), want int64, ids ...int64) {
			t.Helper()
			n, err := call(t.Context(), "orders", ids)
			must.OK(t, err)
			must.Equal(t, what, n, want)
		}
		change("dropped", m.Drop, 1, first[1].ID, waits[0].ID, 99)
		change("retried", m.Retry, 1, first[0].ID, waits[0].ID)
		must.Equal(t, "fresh rows", b.count(open+" AND waits_for IS NULL"), 1)
		change("retried, of all", m.Retry, 3)
		must.Equal(t, "failed rows", b.count("failed_at IS NOT NULL"), 0)
		o.Inboxes[0].Topics = job.TopicSet{"t", "other"}
		_, stop = b.start(o)
		b.drained("1 = 1")
		stop()
		must.Equal(t, "the job of a retried row is", b.get("other", "early").ID, "early")

		b.put(early, early)
		_, err = b.db.ExecContext(t.Context(), "UPDATE duehook_inbox SET failed_at = CURRENT_TIMESTAMP(3)")
		must.OK(t, err)
		change("dropped, of all", m.Drop, 2)
		must.Equal(t, "rows", b.count("1 = 1"), 0)
		_, err = m.Drop(t.Context(), "none", nil)
		must.Equal(t, "no such inbox", errors.Is(err, inbox.ErrNotFound), true)
		_, err = b.db.ExecContext(t.Context(), "DROP TABLE duehook_inbox")
		must.OK(t, err)
		missing, err := inbox.Examine(t.Context(), b.url)
		must.OK(t, err)
		if missing == nil || !strings.Contains(missing.Error(), "apply what duehook inbox sql --dialect "+m.Statuses(t.Context())[0].Database) {
			t.Errorf("the table is missing, and Examine finds %v", missing)
		}
		_, err = m.Retry(t.Context(), "orders", nil)
		must.Equal(t, "no table", errors.Is(err, inbox.ErrUnavailable), true)
		if m.Statuses(t.Context())[0].Error == "" {
			t.Error("the status has no error")
		}
	})
}
