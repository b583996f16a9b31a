package memstore_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/memstore"
	"github.com/duehook/duehook/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var harness = storetest.Harness{
	Open: func(_ testing.TB, o storetest.Options) store.Store {
		return memstore.New(memstore.Options{Retention: o.Retention})
	},
	Bubble: synctest.Test,
}

func TestConformance(t *testing.T) { storetest.Run(t, harness) }

func TestModel(t *testing.T) { storetest.RunModel(t, harness) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, harness) }
