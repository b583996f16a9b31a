package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
	webhook "github.com/duehook/duehook/receiver"
)

// alertSecret signs the deliveries of these tests.
const alertSecret = "whsec_YW4gZXhhbXBsZTsgbmV2ZXIgdXNlIGl0IGluIGVhcm4="

// pager takes the webhooks of alerts, if they are signed.
type pager struct {
	url string

	mu  sync.Mutex
	got map[string]alertBody // by webhook-id
}

// alertBody is the body of an alert's webhook, as far as the tests look at it.
type alertBody struct {
	Alert, Status, Rule, Metric, Text string
	Endpoint                          *string
}

func startPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{got: map[string]alertBody{}}
	verifier, err := webhook.New(webhook.Options{Secrets: []string{alertSecret}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(verifier.Handler(func(_ context.Context, d webhook.Delivery) error {
		var body alertBody
		if err := json.Unmarshal(d.Body, &body); err != nil {
			t.Errorf("a webhook holds %s: %v", d.Body, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got[d.ID] = body
		return nil
	}))
	t.Cleanup(server.Close)
	p.url = server.URL + "/alerts"
	return p
}

// webhooks are those that came, by their rule and status.
func (p *pager) webhooks() map[string][]alertBody {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string][]alertBody{}
	for _, body := range p.got {
		all[body.Rule+" "+body.Status] = append(all[body.Rule+" "+body.Status], body)
	}
	return all
}

func (p *pager) await(t *testing.T, what string) alertBody {
	t.Helper()
	testenv.Eventually(t, deliverLimit, func() bool { return len(p.webhooks()[what]) > 0 }, "a webhook says "+what)
	return p.webhooks()[what][0]
}

// alertView is an alert as the API shows it.
type alertView struct {
	ID, Rule, Endpoint string
}

func listAlerts(t *testing.T, base string) []alertView {
	t.Helper()
	var page struct{ Data []alertView }
	must(t, http.StatusOK, "GET", base+"/v1/alerts", nil).into(t, &page)
	return page.Data
}

// alertFlags make a circuit open soon and half-open often.
var alertFlags = []string{"--breaker-failures", "3", "--breaker-open", "1s", "--signing-secret", alertSecret}

// TestAnEndpointThatGoesDown: its alert comes once and is resolved once,
// although its circuit opens and half-opens repeatedly, and all nodes die.
func TestAnEndpointThatGoesDown(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"embedded", "redis"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			var nodes []*node
			if backend == "embedded" {
				nodes = []*node{startEmbedded(t, shipped, alertFlags...)}
			} else {
				server := testenv.StartRedis(t, testenv.WithAOF())
				nodes = startNodes(t, shipped, "a b", server.URL(), slices.Concat(quickTakeover, alertFlags)...)
			}
			testAlert(t, nodes)
		})
	}
}

func testAlert(t *testing.T, nodes []*node) {
	t.Helper()
	const jobs = 10
	var up atomic.Bool
	shop := receiver.Start(t, func(receiver.Delivery) receiver.Answer {
		if up.Load() {
			return receiver.Answer{}
		}
		return receiver.Answer{Status: http.StatusInternalServerError}
	})
	p := startPager(t)
	base := nodes[0].base()
	// A restarted embedded node does not know that the circuit was open, until
	// it fails again: the alert goes on for as long.
	must(t, http.StatusCreated, "PUT", base+"/v1/alerts/rules/down", map[string]any{"metric": "open_circuits", "url": p.url})
	for i := range jobs {
		register(t, base, registration{
			Topic: "orders", ID: fmt.Sprint(i), URL: shop.URL(), Retry: map[string]any{"steps": []string{"1s"}, "limit": 1000},
		})
	}
	fired := p.await(t, "down firing")
	endpoint := strings.TrimSuffix(shop.URL(), "/hook")
	if fired.Rule != "down" || fired.Metric != "open_circuits" || fired.Endpoint == nil || *fired.Endpoint != endpoint {
		t.Errorf("the webhook is %+v", fired)
	}
	for _, n := range nodes {
		testenv.Eventually(t, deliverLimit, func() bool {
			all := listAlerts(t, n.base())
			return len(all) == 1 && all[0].ID == fired.Alert && all[0].Rule == "down" && all[0].Endpoint == endpoint
		}, "the alerts are listed")
	}
	testenv.Eventually(t, deliverLimit, func() bool {
		return slices.ContainsFunc(nodes, func(n *node) bool {
			page := string(must(t, http.StatusOK, "GET", n.base()+"/metrics", nil).body)
			return strings.Contains(page, `duehook_alert_firing{rule="down"} 1`)
		})
	}, "the elected node reports it in its metric")
	var c cuts
	for _, n := range nodes {
		c.kill(n)
		n.start()
	}
	base = nodes[0].base()
	pause(t, 3*time.Second) // of which it is held and probed some more
	up.Store(true)
	awaitDelivered(t, base, "orders", jobs)
	if resolved := p.await(t, "down resolved"); resolved.Alert != fired.Alert {
		t.Errorf("%+v fired, and %+v was resolved", fired, resolved)
	}
	if all := listAlerts(t, base); len(all) > 0 {
		t.Errorf("what fires after that: %+v", all)
	}
	pause(t, 6*time.Second) // another evaluation
	got := p.webhooks()
	for _, what := range []string{"down firing", "down resolved"} {
		if len(got[what]) != 1 || len(got) != 2 {
			t.Errorf("%s: %+v of %+v", what, got[what], got)
		}
	}
	testenv.Eventually(t, deliverLimit, func() bool {
		return maps.Equal(getTopic(t, base, "duehook-alerts").nonZero(), map[string]int{"delivered": 2})
	}, "all webhooks are written down as delivered")
}

// nonZero are the states that jobs are in.
func (v topicView) nonZero() map[string]int {
	states := maps.Clone(v.States)
	maps.DeleteFunc(states, func(_ string, n int) bool { return n == 0 })
	return states
}
