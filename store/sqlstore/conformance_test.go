package sqlstore

import (
	"flag"
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// free are schemas whose stores are closed. Emptying one takes less time than making one.
var free = make(chan string, 100)

// tables are those whose rows are of a test.
const tables = `duehook.job, duehook.counted, duehook.order_head, duehook.order_queue, duehook.lane, duehook.topic, duehook.endpoint,
	duehook.dead_group, duehook.total, duehook.delta, duehook.limits, duehook.document, duehook.message`

// emptied is a store that frees its schema.
type emptied struct{ *Store }

func (s emptied) Close() error {
	err := s.Store.Close()
	select {
	case free <- s.schema:
	default:
	}
	return err
}

// openEmpty opens a store without jobs. The caller closes it, once.
func openEmpty(t testing.TB, o storetest.Options) store.Store {
	t.Helper()
	options := newOptions()
	options.Retention = o.Retention
	return openEmptied(t, options)
}

func openEmptied(t testing.TB, options Options) store.Store {
	t.Helper()
	select {
	case options.Schema = <-free:
	default:
	}
	s, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), s.sql("TRUNCATE "+tables)); err != nil {
		t.Fatal(err)
	}
	return emptied{s}
}

var harness = storetest.Harness{OneShard: true, Open: openEmpty}

func TestConformance(t *testing.T) { storetest.Run(t, harness) }

// TestModel compares the store with a model of the rules on random calls: fewer than those of other stores, because each
// is a transaction of a server.
func TestModel(t *testing.T) { runModel(t, harness) }

func runModel(t *testing.T, h storetest.Harness) {
	t.Helper()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		must.OK(t, checks.Value.Set("8"))
	}
	storetest.RunModel(t, h)
}

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, harness) }
