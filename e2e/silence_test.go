package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	// hangFor is how long the SQL server hangs, and silenceLimit how long an answer may take meanwhile:
	// a promise.
	hangFor      = 30 * time.Second
	silenceLimit = 5 * time.Second
	probePause   = 100 * time.Millisecond
)

// TestSoakLedgerHangs stops the processes of the ledger's server under load, and reports the longest
// silence of two nodes: of registrations, of /readyz and of deliveries.
func TestSoakLedgerHangs(t *testing.T) {
	for name, start := range map[string]func() (*testenv.SQLServer, error){
		"MariaDB":    func() (*testenv.SQLServer, error) { return testenv.StartMariaDB(true) },
		"PostgreSQL": func() (*testenv.SQLServer, error) { return testenv.StartPostgres(true) },
	} {
		t.Run(name, func(t *testing.T) {
			ledger, err := start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := ledger.Close(); err != nil {
					t.Error(err)
				}
			})
			database := "postgres"
			if name == "MariaDB" {
				database = "ledger"
				createDatabase(t, ledger, database)
			}
			server := testenv.StartRedis(t, testenv.WithAOF())
			nodes := startNodes(t, shipped, "a b", server.URL(), append([]string{"--ledger-url", ledger.URL(database)}, quickTakeover...)...)
			r := receiver.Start(t, receiver.Accept)
			const perSecond = 20
			known := int((hangFor + 15*time.Second).Seconds()) * perSecond
			registerAll(t, nodes[0].base(), "known", r.URL(), known, time.Second, time.Second/perSecond)
			pause(t, 5*time.Second)

			before := clock.Now()
			if err := ledger.Pause(); err != nil {
				t.Fatal(err)
			}
			probes := startSilenceProbes(t, nodes, r.URL())
			pause(t, hangFor)
			longest := probes()
			healed := clock.Now()
			if err := ledger.Resume(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s stopped for %v: the longest answer of a registration took %v (%d were refused), of /readyz %v; the longest pause of deliveries was %v",
				name, healed.Sub(before).Round(time.Millisecond), longest.registration, longest.refused, longest.ready, longestPause(r, before, healed))
			if longest.registration > silenceLimit+time.Second || longest.ready > silenceLimit {
				t.Errorf("a node was silent for longer than %v", silenceLimit)
			}
			if longest.refused == 0 {
				t.Error("no registration was refused")
			}
			all := awaitDelivered(t, nodes[0].base(), "known", known)
			if all["delivered"] != known {
				t.Errorf("of %d jobs, the store knows %v", known, all)
			}
		})
	}
}

// createDatabase creates a database of MariaDB, which has none.
func createDatabase(t *testing.T, server *testenv.SQLServer, name string) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
}

// silences are the longest times that nodes took to answer.
type silences struct {
	mu                  sync.Mutex
	registration, ready time.Duration
	refused             int
}

// startSilenceProbes calls each node all the time until the returned function is called.
func startSilenceProbes(t *testing.T, nodes []*node, url string) (stop func() *silences) {
	ctx, cancel := context.WithCancel(t.Context())
	var longest silences
	var probes sync.WaitGroup
	probe := func(once func()) {
		probes.Go(func() {
			for ctx.Err() == nil {
				once()
				pause(t, probePause)
			}
		})
	}
	timed := func(method, url string, body any) (answer, time.Duration) {
		begun := clock.Now()
		a, _ := call(t.Context(), method, url, nil, body)
		return a, clock.Now().Sub(begun).Round(time.Millisecond)
	}
	for i, n := range nodes {
		probe(func() {
			_, took := timed("GET", n.base()+"/readyz", nil)
			longest.mu.Lock()
			defer longest.mu.Unlock()
			longest.ready = max(longest.ready, took)
		})
		for range 4 {
			probe(func() {
				a, took := timed("POST", n.base()+"/v1/jobs", map[string]any{"topic": fmt.Sprint("probe-", i), "url": url, "delay": "1h"})
				longest.mu.Lock()
				defer longest.mu.Unlock()
				longest.registration = max(longest.registration, took)
				if a.status == http.StatusServiceUnavailable {
					longest.refused++
				}
			})
		}
	}
	return func() *silences {
		cancel()
		probes.Wait()
		return &longest
	}
}

// longestPause is the longest time without a delivery.
func longestPause(r *receiver.Receiver, from, to time.Time) (longest time.Duration) {
	arrived := []time.Time{from, to}
	for _, d := range r.Deliveries() {
		if d.Arrived.After(from) && d.Arrived.Before(to) {
			arrived = append(arrived, d.Arrived)
		}
	}
	slices.SortFunc(arrived, time.Time.Compare)
	for i := 1; i < len(arrived); i++ {
		longest = max(longest, arrived[i].Sub(arrived[i-1]))
	}
	return longest.Round(time.Millisecond)
}
