package sqlstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
	"github.com/duehook/duehook/store/listing"
)

// planSizes are what a schema holds whose plans are judged.
type planSizes struct {
	waiting   int // jobs; every second one is of the topic all
	ended     int // jobs; every second one is dead; the others are of few topics
	topics    int
	endpoints int
	keys      int // order keys, each with a job behind its head, and what else is counted by keys
}

// grows are the tables that grow with the jobs, topics and endpoints. The table delta holds what came since the last take.
var grows = []string{
	"job", "counted", "order_head", "order_queue", "lane", "topic", "endpoint", "dead_group", "limits", "document", "message",
}

// No statement of a call reads a whole table that grows, whether PostgreSQL knows the tables or not. Each connection plans
// a statement once.
func TestPlans(t *testing.T) {
	judgePlans(t, planSizes{waiting: 20_000, ended: 20_000, topics: 4_000, endpoints: 500, keys: 4_000})
}

// TestSoakPlans is TestPlans with more jobs.
func TestSoakPlans(t *testing.T) {
	judgePlans(t, planSizes{waiting: 100_000, ended: 100_000, topics: 10_000, endpoints: 1_000, keys: 10_000})
}

func judgePlans(t *testing.T, sizes planSizes) {
	t.Helper()
	o := newOptions()
	s := openStore(t, o)
	fillForPlans(t, s, sizes)
	for n, analyzed := range []bool{false, true} {
		if analyzed {
			exec(t, s, `ANALYZE `+tables)
		}
		t.Run(fmt.Sprintf("analyzed %v", analyzed), func(t *testing.T) {
			p := openPlanned(t, o)
			callAll(t, p, fmt.Sprint("run-", n), fmt.Sprintf("%08d", sizes.waiting+1_000))
			planOnce(t, p)
		})
	}
}

// planOnce checks that no statement was planned for its values, but the one that sets this.
func planOnce(t *testing.T, p *planned) {
	t.Helper()
	all := p.pool.AcquireAllIdle(t.Context())
	if len(all) == 0 {
		t.Fatal("no connection is idle")
	}
	for _, c := range all {
		var once, more int64
		must.OK(t, c.QueryRow(t.Context(), "SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements WHERE name LIKE 'stmtcache%' AND statement NOT LIKE '%plan_cache_mode%'", pgx.QueryExecModeExec).Scan(&once, &more))
		if c.Release(); once == 0 || more != 0 {
			t.Errorf("a connection ran statements %d times by a plan that it keeps, and planned %d times for the values", once, more)
		}
	}
}

// fillForPlans fills a schema, and has it stay as unknown to the planner as it is then.
func fillForPlans(t *testing.T, s *Store, of planSizes) {
	t.Helper()
	for table := range strings.SplitSeq(tables, ",") {
		exec(t, s, `ALTER TABLE `+strings.TrimSpace(table)+` SET (autovacuum_enabled = off)`)
	}
	endpoints, specs := make([]string, of.endpoints), make([][]byte, of.endpoints)
	for i := range endpoints {
		spec := job.Spec{Destination: job.Destination(fmt.Sprintf("http://e-%04d.example/", i)), Body: []byte(`{"a": 1}`)}
		endpoint, err := spec.Destination.Endpoint()
		must.OK(t, err)
		endpoints[i], specs[i] = endpoint, encoding.AppendSpec(nil, &spec)
	}
	const name = `topic || '|M|' || endpoint`
	exec(t, s, `INSERT INTO duehook.job (topic, id, uid, state, lane, bucket, wake, next_at, created_at, updated_at, due_at, expires_at, ended_at,
			version, timeout, keeps_end, biz_key, group_id, dead_group, reason, spec)
		SELECT topic, id, 'uid-' || id, state, substr(encode(sha256(convert_to(`+name+`, 'UTF8')), 'hex'), 1, 32)::uuid,
			CASE WHEN ended THEN NULL ELSE 1 END, CASE WHEN ended THEN 0 ELSE at END, at, at, at, at, 0, CASE WHEN ended THEN at ELSE 0 END,
			1, 0, n % 50 = 0, 'biz-' || n / 5, 'group-' || n / 5, CASE WHEN state = 5 THEN `+name+` || '|r' || n % 5 END, CASE WHEN state = 5 THEN 'r' || n % 5 ELSE '' END, spec
		FROM (
			SELECT n, n > $3 AS ended, CASE WHEN n <= $3 THEN 0 WHEN n % 2 = 0 THEN 5 ELSE 4 + 2 * (n % 3 / 2) END AS state, lpad(n::text, 8, '0') AS id,
				CASE WHEN n % 2 = 0 THEN 'all' WHEN n <= $3 THEN 'topic-' || lpad((n / 2 % $5)::text, 6, '0') ELSE 'topic-00' || n % 20 || '000' END AS topic,
				1 + CASE WHEN n % 2 = 0 AND n <= $3 THEN 0 ELSE n / 2 % cardinality($1::text[]) END AS e,
				floor(extract(epoch FROM now()) * 1000)::bigint + CASE WHEN n > $3 THEN -1000 WHEN n % 10 < 2 THEN -1 ELSE 3600000 END * (n % 1000 + 1)::bigint AS at
			FROM generate_series(1, $3 + $4::int) AS n
		) AS j, LATERAL (SELECT ($1::text[])[e] AS endpoint, ($2::bytea[])[e] AS spec) AS of`,
		endpoints, specs, of.waiting, of.ended, of.topics)
	exec(t, s, `INSERT INTO duehook.lane (lane, name, topic, letter, endpoint, pulled, waiting, retrying, running, parked, head, head_id, wake)
		SELECT lane, topic || '|M|' || endpoint, topic, 'M', endpoint, false, n, 0, 0, 0, at, '', at FROM (
			SELECT lane, topic, endpoint, count(*) AS n, min(wake) AS at FROM (
				SELECT *, ($1::text[])[1 + CASE WHEN topic = 'all' THEN 0 ELSE id::int / 2 % cardinality($1) END] AS endpoint FROM duehook.job WHERE bucket = 1
			) AS j GROUP BY 1, 2, 3
		) AS l`, endpoints)
	exec(t, s, `INSERT INTO duehook.endpoint (endpoint, waiting) SELECT endpoint, sum(waiting) FROM duehook.lane GROUP BY 1`)
	exec(t, s, `INSERT INTO duehook.topic (topic, waiting, delivered, dead, cancelled, letters, wake)
		SELECT topic, count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 4), count(*) FILTER (WHERE state = 5), count(*) FILTER (WHERE state = 6),
			'{M}', min(wake) FILTER (WHERE bucket = 1) FROM duehook.job GROUP BY 1`)
	exec(t, s, `INSERT INTO duehook.dead_group SELECT dead_group, count(*) FROM duehook.job WHERE dead_group IS NOT NULL GROUP BY 1`)
	exec(t, s, `INSERT INTO duehook.total SELECT true, 0, 0, 0, sum(waiting), 0, 0, sum(delivered), sum(dead), sum(cancelled), 0, 0, 0 FROM duehook.topic`)
	exec(t, s, `INSERT INTO duehook.counted SELECT 'uid-' || lpad(n::text, 8, '0'), 'key' FROM generate_series(1, $1::int) AS n`, of.keys)
	exec(t, s, `INSERT INTO duehook.order_head SELECT 'keys/k-' || n, 'a', '\x01', '\x', true FROM generate_series(1, $1::int) AS n`, of.keys)
	exec(t, s, `INSERT INTO duehook.order_queue SELECT 'keys/k-' || n, '\x02', 'b' FROM generate_series(1, $1::int) AS n`, of.keys)
	exec(t, s, `INSERT INTO duehook.limits SELECT 'topic-' || lpad(n::text, 6, '0'), '{"Weight": 2}' FROM generate_series(1, $1::int, 2) AS n`, of.topics)
	exec(t, s, `INSERT INTO duehook.document SELECT 'kind', 'name-' || n, '{}', 1 FROM generate_series(1, $1::int) AS n`, of.keys)
	exec(t, s, `INSERT INTO duehook.message (channel, payload, at) SELECT 'c', '', `+clock+` FROM generate_series(1, $1::int) AS n`, of.keys)
}

// planned is a store whose plans are judged.
type planned struct {
	*Store
	t       *testing.T
	mu      sync.Mutex
	leading map[string]string // columns of indexes
	// seen is how many plans came, and bad are findings, each once.
	seen int
	bad  map[string]bool
}

// openPlanned opens a store for which the server explains each statement that it has run.
func openPlanned(t *testing.T, o Options) *planned {
	t.Helper()
	p := &planned{Store: openStore(t, o), t: t, bad: map[string]bool{}}
	p.leading = leadingColumns(t, p.Store)
	config := p.pool.Config()
	for name, value := range map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_format": "json", "auto_explain.log_level": "notice",
		"auto_explain.log_analyze": "on", "auto_explain.log_timing": "off",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { p.judge(n.Message) }
	p.pool.Close()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.OK(t, err)
	p.pool = pool
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.seen == 0 {
			t.Error("the server has explained nothing")
		}
	})
	return p
}

// node is a node of a plan.
type node struct {
	Type     string  `json:"Node Type"`
	Table    string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Checked  float64 `json:"Rows Removed by Index Recheck"`
	Loops    float64 `json:"Actual Loops"`
	Cond     string  `json:"Index Cond"`
	Plans    []*node `json:"Plans"`
}

// judge judges the plan of a notice.
func (p *planned) judge(notice string) {
	_, text, ok := strings.Cut(notice, "plan:\n")
	if !ok {
		return
	}
	var explained struct {
		Query string `json:"Query Text"`
		Plan  *node  `json:"Plan"`
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen++
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		p.t.Errorf("%v: %s", err, text)
		return
	}
	explained.Plan.judge(p.leading, func(n *node, what string) {
		finding := n.Type + " of " + n.Table + " by " + n.Index + " " + what
		if key := finding[:strings.IndexByte(finding, ':')] + explained.Query; !p.bad[key] {
			p.bad[key] = true
			p.t.Errorf("%s\n%s", finding, explained.Query)
		}
	})
}

// mostRows is the most rows that one step of a plan may read: more than a page or a batch has.
const mostRows = 1_200

// judge reports the steps that read, or may read, a whole table or index. leading has the first column of each index.
func (n *node) judge(leading map[string]string, bad func(n *node, what string)) {
	for _, child := range n.Plans {
		child.judge(leading, bad)
	}
	if !strings.HasSuffix(n.Type, "Scan") || !slices.Contains(grows, n.Table) {
		return
	}
	rows := (n.Rows + n.Filtered + n.Checked) * n.Loops
	switch {
	case n.Type == "Seq Scan":
		bad(n, "is a scan of the whole table:")
	case rows > mostRows:
		bad(n, fmt.Sprintf("reads too many rows: %.0f", rows))
	case n.Cond != "" && !slices.Contains(words.FindAllString(n.Cond, -1), leading[n.Index]):
		bad(n, "walks through the whole index: "+n.Cond)
	}
}

var words = regexp.MustCompile(`\w+`)

// leadingColumns are the first columns of indexes, or of their first expressions.
func leadingColumns(t *testing.T, s *Store) map[string]string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), `SELECT relname, substring(pg_get_indexdef(oid, 1, true) FROM '(\w+)(?:,|$)') FROM pg_class WHERE relkind = 'i' AND relnamespace = $1::regnamespace`, s.schema)
	must.OK(t, err)
	leading := map[string]string{}
	var index, column string
	_, err = pgx.ForEachRow(rows, []any{&index, &column}, func() error {
		leading[index] = column
		return nil
	})
	must.OK(t, err)
	return leading
}

// callAll calls what nodes call while they work. What it registers is of a topic of its own. A job of the topic all with the id
// has ended.
func callAll(t *testing.T, p *planned, topic, ended string) {
	t.Helper()
	ctx, s := t.Context(), p.Store
	check := func(err error) {
		t.Helper()
		must.OK(t, err)
	}

	// Registrations: new ones, the same ones, ones with order keys and ones under limits.
	regs := due(topic, "http://e-0007.example/", 600)
	for i := range 100 {
		regs[i].Spec.Priority = job.PriorityOf(9)
	}
	for _, limits := range []store.Limits{{}, {Capacity: 100_000, Rate: 1000}} {
		check(s.SetLimits(ctx, topic, limits))
		_, err := s.Register(ctx, regs)
		check(err)
	}
	ordered := due(topic, "http://e-0008.example/", 40)
	for i := range ordered {
		ordered[i].Key.ID = fmt.Sprint("ordered-", i)
		ordered[i].Spec.OrderKey = fmt.Sprint("key-", i%4)
		ordered[i].UID = store.OrderUID(store.BindUID(fmt.Sprintf("%026d", uids.Add(1)), ordered[i].Key), topic, ordered[i].Spec.OrderKey)
	}
	pulls := due(topic, string(job.PullQueue), 20)
	for i := range pulls {
		pulls[i].Key.ID = fmt.Sprint("pull-", i)
		pulls[i].UID = store.BindUID(fmt.Sprintf("%026d", uids.Add(1)), pulls[i].Key)
	}
	counting := due(topic, "http://e-0009.example/", 1)
	counting[0].Key.ID, counting[0].Spec.Count, counting[0].Spec.When.Delay = "counting", &job.Count{Target: 10}, time.Hour
	counting[0].UID = store.BindUID(fmt.Sprintf("%026d", uids.Add(1)), counting[0].Key)
	for _, more := range [][]store.Registration{ordered, pulls, counting} {
		_, err := s.Register(ctx, more)
		check(err)
	}
	_, err := s.Count(ctx, store.Count{Key: counting[0].Key, Adds: []job.Add{{N: 1, Key: "a"}, {N: 1}}})
	check(err)

	// Takes and settlements.
	o := terms(400)
	o.Workers = &store.Workers{Has: map[string]int{topic: 1, "all": 1}, Free: 400}
	var claims []job.Job
	for _, o := range []store.TakeOptions{terms(400), o, {Max: 5, Lease: time.Hour, LeaseMargin: time.Second, By: "test", Limits: terms(1).Limits, Pull: []string{topic}}} {
		taken, err := s.Take(ctx, 0, o)
		check(err)
		if len(taken.Claims) == 0 {
			t.Error("nothing was taken")
		}
		for _, c := range taken.Claims {
			claims = append(claims, c.Job)
		}
	}
	var settlements []job.Settlement
	for i := range claims {
		switch j := &claims[i]; i % 4 {
		case 0, 1:
			settlements = append(settlements, delivered(j))
		case 2:
			settlements = append(settlements, job.Settle(j, job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown}, nil))
		case 3:
			st := delivered(j)
			st.Claimed = nil // as by a consumer
			settlements = append(settlements, st)
		}
	}
	_, err = s.Settle(ctx, settlements)
	check(err)
	if !s.isQuiet(ctx) {
		_, err = s.Take(ctx, 0, terms(1))
		check(err)
	}
	for _, to := range []store.CircuitState{store.CircuitOpen, store.CircuitHalfOpen, store.CircuitClosed} {
		check(s.SetCircuit(ctx, "http://e-0007.example:80", to, time.Minute))
	}

	// Jobs.
	keys := []job.Key{{Topic: "all", ID: "00004990"}, {Topic: "all", ID: ended}, ordered[30].Key, regs[0].Key}
	for _, key := range keys {
		j, err := s.Get(ctx, key)
		check(err)
		_, err = s.Outlook(ctx, key)
		check(err)
		_, err = s.Aside(ctx, &j)
		check(err)
	}
	_, err = s.Update(ctx, job.Key{Topic: "all", ID: "00003000"}, func(j *job.Job, now job.Instant) error {
		j.NextAt = now.Add(time.Hour)
		return nil
	})
	check(err)
	_, err = s.Update(ctx, ordered[30].Key, func(j *job.Job, now job.Instant) error {
		j.State, j.EndedAt = job.Cancelled, now
		return nil
	})
	check(err)
	for _, part := range []store.Part{store.WholeJob, store.JobLog} {
		_, err = s.Read(ctx, store.ReadQuery{Keys: keys, Part: part})
		check(err)
	}
	restored := store.Restored{Job: job.Job{Key: job.Key{Topic: topic, ID: "restored"}, UID: "restored", Version: 1, State: job.Delivered, EndedAt: 1, Spec: regs[0].Spec}}
	check(s.Restore(ctx, []store.Restored{restored}))

	p.callLists(topic)

	// Housekeeping.
	for range 2 {
		_, err = s.Purge(ctx, 500)
		check(err)
	}
	_, err = s.PutDocuments(ctx, []store.Document{{Kind: "kind", Name: topic, Data: []byte("{}")}, {Kind: "kind", Name: "name-7", Version: 1, Deleted: true}})
	check(err)
	_, err = s.ListDocuments(ctx, store.DocumentQuery{Kind: "kind", Name: topic})
	check(err)
	check(s.Publish(ctx, "c", make([]byte, 2*maxPayload)))
	check(s.Takes(ctx))
}

// callLists calls what lists and counts.
func (p *planned) callLists(topic string) {
	t, ctx, s := p.t, p.t.Context(), p.Store
	t.Helper()
	check := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	now := job.InstantOf(job.SystemClock().Now())
	for kind := store.TopicNames; kind <= store.EndedNames; kind++ {
		for _, q := range []store.NameQuery{{}, {From: "m"}, {Topic: "all"}, {Topic: topic}, {Endpoint: "http://e-0250.example:80"}, {Endpoint: "http://e-0000.example:80"}} {
			q.Kind, q.N, q.Before = kind, 100, now
			_, err := s.Names(ctx, q)
			check(err)
		}
	}
	lane := job.Lane{Topic: "all", Endpoint: "http://e-0000.example:80"}
	group := listing.DeadName(job.Lane{Topic: "all", Endpoint: "http://e-0250.example:80"}, "r0")
	for _, of := range []store.Index{
		{Kind: store.IndexLane, Name: lane.String()},
		{Kind: store.IndexDead, Name: group},
		{Kind: store.IndexEnded, Name: "topic-001000"},
		{Kind: store.IndexNamed, Name: "biz-7"},
		{Kind: store.IndexNamed, Name: "/group-7"},
		{Kind: store.IndexUID, Name: "uid-00000007"},
		{Kind: store.IndexVisits},
	} {
		for _, back := range []bool{false, true} {
			if back && of.Kind > store.IndexEnded {
				continue
			}
			entries, _, err := s.Entries(ctx, of, store.Span{N: 200, Back: back})
			check(err)
			if len(entries) == 0 {
				t.Errorf("no entries of %v", of)
				continue
			}
			_, _, err = s.Entries(ctx, of, store.Span{N: 200, Back: back, After: &entries[len(entries)/2].Position})
			check(err)
		}
	}
	for _, bounds := range [][]job.Instant{{0, now, store.EndOfTime}, {now, now.Add(time.Hour), now.Add(2 * time.Hour)}} {
		f, err := s.Figures(ctx, store.FigureQuery{
			Depth: true, Circuits: true, Topics: []string{"all", topic}, Endpoints: []string{"http://e-0000.example:80"}, Groups: []string{group}, Lanes: []string{lane.String()},
			Due: store.DueQuery{Bounds: bounds, Behind: true, First: true, Most: 800},
		})
		check(err)
		if f.Groups[0].Count == 0 || f.Topics[0][job.Waiting] == 0 || f.Lanes[0].First == 0 {
			t.Errorf("figures of what is there: %+v", f)
		}
	}
	_, err := s.ListDocuments(ctx, store.DocumentQuery{Kind: "kind", After: "name-5", Limit: 100})
	check(err)
}
