package sqlstore

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// The views show jobs and their attempts as the documents say.
func TestViews(t *testing.T) {
	s := openStore(t, newOptions())
	_, err := s.Register(t.Context(), []store.Registration{
		{Key: job.Key{Topic: "t", ID: "a"}, UID: "u", Spec: job.Spec{Destination: "http://a.example/", BizKey: "b", OrderKey: "o", When: job.When{Delay: time.Hour}}},
	})
	must.OK(t, err)
	exec(t, s, `UPDATE duehook.job SET attempts = 1, log = ARRAY['{"number":1,"started_at":1700000000500,"duration":2500000,"status":503,"response_body":"a\u0000b","reason":"status","next_at":1700000015500,"node":"n-1"}']`)
	var state, biz, order string
	var created, next time.Time
	var ended, leased *time.Time
	must.OK(t, s.pool.QueryRow(t.Context(), s.sql(`SELECT state, biz_key, order_key, created_at, next_at, ended_at, leased_until FROM duehook.jobs WHERE topic = 't' AND id = 'a'`)).
		Scan(&state, &biz, &order, &created, &next, &ended, &leased))
	must.Same(t, "state, biz_key and order_key", []string{state, biz, order}, []string{"waiting", "b", "o"})
	must.Equal(t, "delay", next.Sub(created), time.Hour)
	if ended != nil || leased != nil {
		t.Errorf("a waiting job ended at %v and is leased until %v", ended, leased)
	}
	var number, status int
	var started time.Time
	var ms float64
	var failed *string
	var node string
	must.OK(t, s.pool.QueryRow(t.Context(), s.sql(`SELECT number, status, started_at, duration_ms, error, next_at, node FROM duehook.attempts WHERE uid = 'u'`)).
		Scan(&number, &status, &started, &ms, &failed, &next, &node))
	must.Same(t, "number and status", []int{number, status}, []int{1, 503})
	must.Equal(t, "milliseconds", ms, 2.5)
	must.Equal(t, "node", node, "n-1")
	must.Equal(t, "the next attempt", next.Sub(started), 15*time.Second)
}
