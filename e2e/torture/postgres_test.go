package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// postgresRows are the faults of nodes on PostgreSQL.
var postgresRows = []*row{
	{name: "kill-nodes-pg", about: "SIGKILL of random nodes of three on PostgreSQL", nodes: 3, postgres: true, short: true, inject: kills},
	{name: "crash-accepted-pg", about: "crash before the answer to a registration, one of two nodes", nodes: 2, postgres: true, failpoint: "accepted", inject: crashes},
	{name: "crash-claimed-pg", about: "", nodes: 2, postgres: true, failpoint: "claimed", inject: crashes},
	{name: "crash-posted-pg", about: "", nodes: 2, postgres: true, failpoint: "posted", inject: crashes},
	{name: "crash-settled-pg", about: "", nodes: 2, postgres: true, failpoint: "settled", inject: crashes},
	{name: "sigstop-pg", about: "a node frozen for longer than the lease", nodes: 2, postgres: true, inject: sigstop},
	{name: "sigterm-pg", about: "rolling restarts of three nodes, four in each run", nodes: 3, postgres: true, inject: rollingRestarts},
	{name: "proxy-cut-pg", about: "connections to PostgreSQL reset, over and over", nodes: 2, postgres: true, proxied: true, lossy: true, inject: proxyCut},
	{name: "commit-lost-pg", about: "replies of PostgreSQL to COMMIT swallowed at random", nodes: 2, postgres: true, proxied: true, lossy: true, short: true, inject: commitLost},
	{name: "proxy-delay-pg", about: "replies of PostgreSQL delayed by up to 0.8 s", nodes: 2, postgres: true, proxied: true, lossy: true, inject: proxyDelay},
	{name: "partition-pg", about: "a node cut off from PostgreSQL, at times for longer than the lease", nodes: 2, postgres: true, proxied: true, lossy: true, inject: partition},
	{name: "pg-kill", about: "SIGKILL of PostgreSQL, and a restart", nodes: 2, postgres: true, lossy: true, short: true, inject: postgresDown((*testenv.SQLServer).Kill)},
	{name: "pg-immediate", about: "immediate shutdown of PostgreSQL, and a restart", nodes: 2, postgres: true, lossy: true, inject: postgresDown(shutdownBy(syscall.SIGQUIT))},
	{name: "pg-restart", about: "fast shutdown of PostgreSQL, and a restart", nodes: 2, postgres: true, lossy: true, inject: postgresDown(shutdownBy(syscall.SIGINT))},
	{name: "pg-freeze", about: "all processes of PostgreSQL stopped for 8 to 60 s", nodes: 2, postgres: true, lossy: true, inject: postgresFreeze},
	{name: "pg-terminate", about: "all backends terminated, over and over", nodes: 2, postgres: true, lossy: true, inject: postgresTerminate},
	{name: "pg-connections", about: "all connections of PostgreSQL taken by others", nodes: 2, postgres: true, lossy: true, inject: postgresConnections},
	{name: "pg-read-only", about: "PostgreSQL takes only reads for a while", nodes: 2, postgres: true, inject: postgresReadOnly},
	{name: "pg-deadlock", about: "another program locks jobs in the opposite order", nodes: 2, postgres: true, inject: postgresDeadlock},
	{name: "pg-disk-full", about: "PostgreSQL cannot write", nodes: 2, postgres: true, lossy: true, inject: postgresDiskFull},
	{name: "pg-failover", about: "the primary killed or shut down; its synchronous replica takes over", nodes: 2, postgres: true, replica: true, lossy: true, inject: postgresFailover},
	{name: "clock-forward-pg", about: "PostgreSQL's clock steps ahead by up to an hour", nodes: 2, postgres: true, skewed: true, inject: clockForward},
	{name: "clock-back-pg", about: "PostgreSQL's clock steps back by up to an hour, and to the right time again", nodes: 2, postgres: true, skewed: true, inject: clockBack},
}

// database is the PostgreSQL of a run.
type database struct {
	run     *run
	server  *testenv.SQLServer
	replica *testenv.SQLServer // nil: there is none
}

// adminLimit bounds what a fault asks of the server.
const adminLimit = 20 * time.Second

// startPostgres starts a server that waits for its disk.
func (r *run) startPostgres() {
	o := testenv.PostgresOptions{Durable: true, Args: []string{"-c", "deadlock_timeout=20ms"}}
	if r.row.skewed {
		r.skew = newSkew(r.t)
		o.Env = r.skew.env
	}
	r.sql = &database{run: r, server: r.startServer(o)}
	r.url = r.sql.server.URL("postgres")
	if !r.row.replica {
		return
	}
	o.ReplicaOf = r.sql.server
	r.sql.replica = r.startServer(o)
	r.sql.exec("ALTER SYSTEM SET synchronous_standby_names = '*'")
	r.sql.exec("SELECT pg_reload_conf()")
	testenv.Eventually(r.t, testenv.Patience, func() bool {
		return r.sql.query("SELECT count(*)::int FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
	}, "the replica is synchronous")
	r.url = strings.Replace(r.url, r.sql.server.Addr(), r.sql.server.Addr()+","+r.sql.replica.Addr(), 1)
}

func (r *run) startServer(o testenv.PostgresOptions) *testenv.SQLServer {
	r.t.Helper()
	s, err := testenv.StartPostgresWith(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// connect returns a connection of its own, whatever the nodes do.
func (d *database) connect(ctx context.Context, s *testenv.SQLServer) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.URL("postgres"))
}

// with runs a task on a connection of its own.
func (d *database) with(task func(ctx context.Context, c *pgx.Conn) error) error {
	ctx, stop := context.WithTimeout(d.run.t.Context(), adminLimit)
	defer stop()
	c, err := d.connect(ctx, d.server)
	if err != nil {
		return err
	}
	return errors.Join(task(ctx, c), c.Close(ctx))
}

func (d *database) exec(text string) {
	d.run.t.Helper()
	d.check(text, d.with(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	}))
}

func (d *database) query(text string) (n int) {
	d.run.t.Helper()
	d.check(text, d.with(func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, text).Scan(&n) }))
	return n
}

func (d *database) check(what string, err error) {
	d.run.t.Helper()
	if err != nil {
		d.run.t.Errorf("%s: %v", what, err)
	}
}

// commitLost drops replies to requests at random, replies to COMMIT among them.
func commitLost(r *run) {
	share := 0.02 + 0.2*r.rnd.Float64()
	r.cuts.During("replies dropped", false, func() {
		for _, p := range r.proxies {
			rnd := rand.New(rand.NewPCG(r.rnd.Uint64(), 0))
			p.DropReplies(func([]byte) bool { return rnd.Float64() < share })
		}
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		for _, p := range r.proxies {
			p.DropReplies(nil)
		}
	})
}

// postgresDown stops the server, and starts it again after a pause.
func postgresDown(end func(*testenv.SQLServer) error) func(*run) {
	return func(r *run) {
		r.cuts.During("PostgreSQL down", false, func() {
			r.sql.check("end the server", end(r.sql.server))
			r.pause(200*time.Millisecond, 2*time.Second)
			r.sql.check("start the server", r.sql.server.Start())
		})
	}
}

func shutdownBy(s syscall.Signal) func(*testenv.SQLServer) error {
	return func(server *testenv.SQLServer) error { return server.Shutdown(s) }
}

func postgresFreeze(r *run) {
	r.cuts.During("PostgreSQL frozen", false, func() {
		r.sql.check("freeze", r.sql.server.Freeze())
		r.pause(8*time.Second, time.Minute)
		r.sql.check("thaw", r.sql.server.Thaw())
	})
}

func postgresTerminate(r *run) {
	for range 3 {
		r.cuts.During("backends terminated", false, r.sql.terminate)
		r.pause(200*time.Millisecond, 900*time.Millisecond)
	}
}

func (d *database) terminate() {
	d.run.t.Helper()
	d.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
}

// postgresConnections opens connections until the server refuses. Then it terminates those of the nodes, and takes their places.
func postgresConnections(r *run) {
	var taken []*pgx.Conn
	within := func(call func(ctx context.Context) error) error { // each on its own: on a busy machine a hundred take long
		ctx, stop := context.WithTimeout(r.t.Context(), adminLimit)
		defer stop()
		return call(ctx)
	}
	r.cuts.During("no connections", false, func() {
		connect := func(ctx context.Context) error {
			c, err := r.sql.connect(ctx, r.sql.server)
			if err == nil {
				taken = append(taken, c)
			}
			return err
		}
		take := func() {
			for within(connect) == nil {
			}
		}
		take()
		if len(taken) == 0 {
			r.t.Error("the server gives no connection")
			return
		}
		r.sql.check("terminate the nodes' connections", within(func(ctx context.Context) error {
			_, err := taken[0].Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'duehook%'")
			return err
		}))
		take()
		r.pause(time.Second, 3*time.Second)
		for _, c := range taken {
			_ = within(c.Close)
		}
	})
}

func postgresReadOnly(r *run) {
	r.cuts.During("read-only", false, func() {
		r.sql.exec("ALTER SYSTEM SET default_transaction_read_only = on")
		r.sql.exec("SELECT pg_reload_conf()")
		r.pause(500*time.Millisecond, 3*time.Second)
		r.sql.check("allow writes", r.sql.with(func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "SET default_transaction_read_only = off")
			if err == nil {
				_, err = c.Exec(ctx, "ALTER SYSTEM RESET default_transaction_read_only")
			}
			if err == nil {
				_, err = c.Exec(ctx, "SELECT pg_reload_conf()")
			}
			return err
		}))
	})
}

// postgresDeadlock locks jobs in descending order; nodes lock in ascending order. It notes no cut, because nodes repeat
// a statement that the server cancels.
func postgresDeadlock(r *run) {
	for range 8 {
		err := r.sql.with(func(ctx context.Context, c *pgx.Conn) error {
			rows, err := c.Query(ctx, "SELECT topic, id FROM duehook.job ORDER BY topic DESC, id DESC LIMIT 40")
			if err != nil {
				return err
			}
			keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Topic, ID string }])
			if err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				for _, k := range keys {
					if _, err := tx.Exec(ctx, "SELECT 1 FROM duehook.job WHERE topic = $1 AND id = $2 FOR UPDATE", k.Topic, k.ID); err != nil {
						return err
					}
				}
				return nil
			})
		})
		var victim interface{ SQLState() string }
		if errors.As(err, &victim) && victim.SQLState() == "40P01" {
			err = nil
		}
		r.sql.check("lock jobs", err)
		r.pause(20*time.Millisecond, 200*time.Millisecond)
	}
}

// postgresDiskFull makes all writes fail that would grow a file of the server. A server that cannot write its log stops, as on a full disk.
func postgresDiskFull(r *run) {
	r.cuts.During("the disk is full", false, func() {
		r.sql.check("fill the disk", r.sql.server.LimitFiles("0"))
		r.pause(500*time.Millisecond, 2*time.Second)
		if !r.sql.server.Ended() {
			r.sql.check("free the disk", r.sql.server.LimitFiles("unlimited"))
			r.pause(100*time.Millisecond, 500*time.Millisecond)
		}
		if r.sql.server.Ended() {
			r.sql.check("start the server", r.sql.server.Start())
		}
	})
}

// postgresFailover stops the primary for good, and promotes the replica.
func postgresFailover(r *run) {
	r.cuts.During("failover", false, func() {
		end := (*testenv.SQLServer).Kill
		if r.rnd.IntN(2) == 0 {
			end = shutdownBy(syscall.SIGINT)
		}
		r.sql.check("end the primary", end(r.sql.server))
		r.pause(200*time.Millisecond, 2*time.Second)
		r.sql.server = r.sql.replica
		r.sql.exec("SELECT pg_promote()")
		for _, n := range r.nodes {
			n.AwaitReady()
		}
	})
}
