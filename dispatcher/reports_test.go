package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// The first request after Try decides.
func TestTryOfAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changes
		s := testCircuits(&c)
		s.try("http://unknown.example:80")
		for range 3 {
			s.try(shop) // while it is closed, this changes nothing
			try(s, shop, errEndpoint)
		}
		pass(t, time.Second)
		for range outageFailures - 3 {
			s.try(shop)
			if !try(s, shop, errExcluded) || !try(s, shop, errEndpoint) {
				t.Error("a try is not allowed")
			}
			if try(s, shop, nil) {
				t.Error("a failed try leaves the circuit closed")
			}
		}
		s.try(shop)
		if !try(s, shop, nil) {
			t.Error("another try is not allowed")
		}
		for range 2 {
			if !try(s, shop, errEndpoint) {
				t.Error("the circuit is not closed after a try that went well")
			}
		}
		hold, free := "open "+shop+" 10s", "closed "+shop
		if diff := cmp.Diff([]string{hold, hold, hold, free, "over " + shop + " 1s"}, c.list); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestTryWithoutCircuits(*testing.T) {
	newCircuits(Options{BreakerFailures: -1}.withDefaults(), nil, nil).try(shop)
}

// An endpoint that is held for an hour by two nodes is delivered to when it is
// tried, and carried freely again after that.
func TestTry(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{Retention: time.Hour})
		tryHeld(t, s)
	})
	t.Run("redis", func(t *testing.T) { tryHeld(t, openRedis(t, testenv.StartRedis(t).URL(), 2)) })
}

func tryHeld(t *testing.T, s store.Store) {
	t.Helper()
	delivered := make(chan struct{}, 10_000)
	url := serve(t, func(http.ResponseWriter, *http.Request) { delivered <- struct{}{} })
	endpoint, err := job.Destination(url).Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	carrying(t, s)
	nodes := make([]*Dispatcher, 2)
	for i := range nodes {
		nodes[i], err = New(Options{Store: s, AllowCIDRs: loopback(), BreakerFailures: 1, BreakerOpen: time.Hour, ID: fmt.Sprint("node", i)})
		if err != nil {
			t.Fatal(err)
		}
		launch(t, nodes[i])
		try(nodes[i].circuits, endpoint, errEndpoint)
	}
	awaitCircuit(t, s, endpoint, store.CircuitOpen)
	tries := 0
	testenv.Eventually(t, patience, func() bool {
		// A node may hear of the first try too late, and put its job off.
		register(t, s, fmt.Sprint("job", tries), job.Spec{Destination: job.Destination(url)})
		tries++
		if err := nodes[0].Try(t.Context(), endpoint); err != nil {
			t.Fatal(err)
		}
		return len(delivered) > 0
	}, "a job is delivered")
	awaitCircuit(t, s, endpoint, store.CircuitClosed)
}

func awaitCircuit(t *testing.T, s store.Store, endpoint string, want store.CircuitState) {
	t.Helper()
	testenv.Eventually(t, patience, func() bool {
		page, err := listing.Endpoints(t.Context(), s, store.EndpointQuery{Also: []string{endpoint}, Limit: 1})
		return err == nil && page.Endpoints[0].Circuit.State() == want
	}, "the circuit is "+want.String())
}

// failingBus is a store that cannot publish, or hold.
type failingBus struct {
	*fakeStore
	publish, hold error
}

func (s failingBus) Publish(context.Context, string, []byte) error { return s.publish }
func (s failingBus) SetCircuit(context.Context, string, store.CircuitState, time.Duration) error {
	return s.hold
}
func (s failingBus) Listen(context.Context, string, func([]byte)) error { return errDown }

func TestTryThatFails(t *testing.T) {
	for _, s := range []failingBus{{newFakeStore(), errDown, nil}, {newFakeStore(), nil, errDown}} {
		d := withTransport(t, Options{Store: s}, always(200))
		if err := d.Try(t.Context(), shop); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, want that of the store", err)
		}
	}
}

// A dispatcher that cannot listen goes on trying, and stops when told to.
func TestTriesWithoutABus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		launch(t, withTransport(t, Options{Store: failingBus{fakeStore: newFakeStore()}}, always(200)))
		pass(t, time.Minute)
	})
}

type signerFunc func() (string, error)

func (f signerFunc) Sign(context.Context, string, string, time.Time, []byte) (string, error) {
	return f()
}

// A test is a request like any other, and leaves nothing behind.
func TestTest(t *testing.T) {
	got := make(chan http.Header, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			_, _ = io.Copy(io.Discard, r.Body) // until then nobody learns that the client is gone
			<-r.Context().Done()
			return
		}
		got <- r.Header
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s, signErr := newFakeStore(), error(nil)
	d, err := New(Options{Store: s, AllowCIDRs: loopback(), BreakerFailures: 1, Signer: signerFunc(func() (string, error) { return "v1,x", signErr })})
	if err != nil {
		t.Fatal(err)
	}
	test := func(ctx context.Context, url string, limit time.Duration) (job.Attempt, error) {
		j := newJob("test", url)
		return d.Test(ctx, store.Claimed{Job: j, Now: 1_800_000_000_000}, limit)
	}
	for range 2 { // the circuit is not asked
		a, err := test(t.Context(), url, time.Minute)
		want := job.Attempt{Number: 1, StartedAt: 1_800_000_000_000, Status: 503, Error: "http_503"}
		if diff := cmp.Diff(want, a, cmpopts.IgnoreFields(job.Attempt{}, "Duration", "Timings", "StartedAt", "ResponseHeaders")); diff != "" || err != nil || a.Duration == 0 {
			t.Errorf("%v %s", err, diff)
		}
		if h := next(t, got, "request"); h.Get("Webhook-Signature") != "v1,x" || h.Get("Duehook-Job-Id") != "test" {
			t.Errorf("headers %v", h)
		}
	}
	if n := d.circuits.count(); len(n) != 0 {
		t.Errorf("circuits have learned of it: %v", n)
	}
	if a, err := test(t.Context(), url+"/slow", 50*time.Millisecond); err != nil || a.Error != classTimeout {
		t.Errorf("slow: %+v, %v", a, err)
	}
	if a, err := test(t.Context(), "http://169.254.169.254/", time.Minute); err != nil || a.Error != classBlocked || a.Duration != 0 {
		t.Errorf("blocked: %+v, %v", a, err)
	}
	signErr = errStore
	if _, err := test(t.Context(), url, time.Minute); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("unsigned: %v", err)
	}
}
