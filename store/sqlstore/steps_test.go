package sqlstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// skew is a schema with a clock_timestamp of its own, for stores whose search path begins with it.
type skew string

// newSkew makes one, and has the stores with these options use it.
func newSkew(t testing.TB, o *Options) skew {
	t.Helper()
	name := o.Schema + "_skew"
	o.URL += "&search_path=" + name + ",pg_catalog"
	s := skew(name)
	s.exec(t, `CREATE SCHEMA `+name+`; CREATE TABLE `+name+`.by (value interval NOT NULL); INSERT INTO `+name+`.by VALUES ('0');
		CREATE FUNCTION `+name+`.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + value FROM `+name+`.by'`)
	return s
}

// step sets the clock forward, or back.
func (s skew) step(t testing.TB, by time.Duration) {
	t.Helper()
	s.exec(t, `UPDATE `+string(s)+`.by SET value = value + $1`, by)
}

func (skew) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), server.URL("postgres"))
	must.OK(t, err)
	_, err = db.Exec(t.Context(), text, args...)
	must.OK(t, err)
	must.OK(t, db.Close(t.Context()))
}

// skewed is a store whose clock can be set.
type skewed struct {
	*Store
	skew
}

func TestSteps(t *testing.T) {
	open := func(t testing.TB, o storetest.Options) store.Store {
		t.Helper()
		options := newOptions()
		options.Retention = o.Retention
		clock := newSkew(t, &options)
		s, err := Open(t.Context(), options)
		must.OK(t, err)
		return skewed{s, clock}
	}
	storetest.RunSteps(t, storetest.Harness{Open: open}, func(t testing.TB, s store.Store, by time.Duration) {
		t.Helper()
		s.(skewed).step(t, by)
	})
}

// A node that never saw the clock ahead notices that it was set back.
func TestClockSetBackBetweenNodes(t *testing.T) {
	o := newOptions()
	clock := newSkew(t, &o)
	s, err := Open(t.Context(), o)
	must.OK(t, err)
	register(t, s, due("t", "http://a.example/", 1))
	clock.step(t, time.Hour)
	must.OK(t, s.SetCircuit(t.Context(), "http://a.example:80", store.CircuitOpen, time.Minute))
	must.Equal(t, "claims while the circuit is open", len(take(t, s, terms(1)).Claims), 0)
	must.OK(t, s.Close())
	clock.step(t, -time.Hour)
	s = openStore(t, o)
	must.Equal(t, "claims", len(take(t, s, terms(1)).Claims), 1)
	must.Equal(t, "the clock is right again", one[bool](t, s, `SELECT at < (extract(epoch FROM clock_timestamp()) + 60) * 1000 FROM duehook.total`), true)
}
