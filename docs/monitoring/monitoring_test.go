// Package monitoring holds the Prometheus rules and the Grafana dashboard
// against the metrics of a real duehook.
package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what is sure to come.
const patience = 2 * time.Minute

// query is an expression in one of the files, and what is shown beside it.
type query struct {
	where  string
	expr   string
	legend string // names labels as {{label}}, or in rules {{ $labels.label }}
}

// alertRules reads the file of rules.
func alertRules(t *testing.T) []query {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert       string
				Expr        string
				For         string
				Labels      struct{ Severity string }
				Annotations struct{ Summary, Description string }
			}
		}
	}
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	var all []query
	named := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.Alert, "Duehook") || named[r.Alert] {
				t.Errorf("the rule %q needs a name of its own that begins with Duehook", r.Alert)
			}
			named[r.Alert] = true
			if r.For != "" {
				if _, err := model.ParseDuration(r.For); err != nil {
					t.Errorf("%s: for: %v", r.Alert, err)
				}
			}
			if s := r.Labels.Severity; s != "warning" && s != "critical" {
				t.Errorf("%s has the severity %q", r.Alert, s)
			}
			if r.Annotations.Summary == "" || r.Annotations.Description == "" {
				t.Errorf("%s does not say what to do", r.Alert)
			}
			all = append(all, query{r.Alert, r.Expr, r.Annotations.Summary + r.Annotations.Description})
		}
	}
	return all
}

// panels reads the dashboard.
func panels(t *testing.T) []query {
	t.Helper()
	var file struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []query
	taken := map[string]string{}
	for _, p := range file.Panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				place := fmt.Sprint(x, y)
				if taken[place] != "" || x >= 24 {
					t.Errorf("%s lies where %s does, or outside", p.Title, taken[place])
				}
				taken[place] = p.Title
			}
		}
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", "duehook").Replace(target.Expr)
			all = append(all, query{p.Title, expr, target.LegendFormat})
		}
	}
	return all
}

// exposed is what a metric is exposed with: its labels, and their values.
type exposed map[string]map[string][]string

// scrape reads /metrics as Prometheus does.
func scrape(t *testing.T, base string) exposed {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := exposed{}
	for name, f := range families {
		names := []string{name}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, n := range names {
			all[n] = map[string][]string{}
			if strings.HasSuffix(n, "_bucket") {
				all[n]["le"] = nil
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					all[n][l.GetName()] = append(all[n][l.GetName()], l.GetValue())
				}
			}
		}
	}
	return all
}

// ofScraping are labels that Prometheus itself adds.
var ofScraping = []string{"job", "instance"}

var legendLabel = regexp.MustCompile(`{{ *(?:\$labels\.)?([a-z_]+) *}}`)

// wrongWith says what is wrong with a query.
func (e exposed) wrongWith(q query) []string {
	expr, err := parser.ParseExpr(q.expr)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	var grouped []string
	known := map[string]bool{}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			if n.Without {
				wrong = append(wrong, "groups by what is not named")
			}
			grouped = append(grouped, n.Grouping...)
		case *parser.VectorSelector:
			of, ok := e[n.Name]
			if !ok {
				wrong = append(wrong, n.Name+" does not exist")
			}
			for name := range of {
				known[name] = true
			}
			for _, m := range n.LabelMatchers {
				wrong = append(wrong, e.unmatched(n.Name, m)...)
			}
		}
		return nil
	})
	for _, name := range grouped {
		if !known[name] && !slices.Contains(ofScraping, name) {
			wrong = append(wrong, "groups by "+name+", which none of its metrics has")
		}
	}
	for _, m := range legendLabel.FindAllStringSubmatch(q.legend, -1) {
		if !slices.Contains(grouped, m[1]) {
			wrong = append(wrong, "shows "+m[1]+", by which it does not group")
		}
	}
	return wrong
}

// unmatched says which label or value of a matcher a metric does not have.
func (e exposed) unmatched(metric string, m *labels.Matcher) []string {
	if m.Name == labels.MetricName || slices.Contains(ofScraping, m.Name) {
		return nil
	}
	values, ok := e[metric][m.Name]
	if !ok {
		return []string{metric + " has no label " + m.Name}
	}
	wanted := []string{m.Value}
	if m.Type == labels.MatchRegexp {
		wanted = strings.Split(m.Value, "|")
	}
	var wrong []string
	for _, w := range wanted {
		one := labels.MustNewMatcher(m.Type, m.Name, w)
		if !slices.ContainsFunc(values, one.Matches) && m.Value != "5.." { // there need be no failure of the API
			wrong = append(wrong, fmt.Sprintf("%s has no %s %q", metric, m.Name, w))
		}
	}
	return wrong
}

// post makes a request that is to succeed.
func post(t *testing.T, method, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, url, resp.StatusCode, text, err)
	}
}

// start runs duehook with a store.
func start(t *testing.T, flags ...string) (base string) {
	t.Helper()
	c, err := config.Load(append([]string{"--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--data-dir", t.TempDir()}, flags...), nil)
	if err != nil {
		t.Fatal(err)
	}
	base, stop, err := node.Start(t.Context(), node.Options{Config: c, Logger: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatalf("duehook did not start: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return base
}

// work has a node do what all metrics need.
func work(t *testing.T, base string) {
	t.Helper()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(hook.Close)
	post(t, "PUT", base+"/v1/alerts/rules/dead", `{"metric":"dead_letters","above":0}`)
	for _, path := range []string{"/works", "/fails"} {
		post(t, "POST", base+"/v1/jobs", `{"topic":"t","url":"`+hook.URL+path+`"}`)
	}
}

// exist waits until each metric, label and value that queries name is there.
func exist(t *testing.T, base string, queries []query) {
	t.Helper()
	var wrong []string
	defer func() {
		for _, w := range wrong {
			t.Error(w)
		}
	}()
	testenv.Eventually(t, patience, func() bool {
		metrics := scrape(t, base)
		wrong = nil
		for _, q := range queries {
			for _, w := range metrics.wrongWith(q) {
				wrong = append(wrong, q.where+": "+w)
			}
		}
		return len(wrong) == 0
	}, "every metric, label and value is there")
}

// startPostgres starts a server, with an inbox in its database.
func startPostgres(t *testing.T) (url string) {
	t.Helper()
	url = testenv.Postgres(t, false).URL("postgres")
	conn, err := pgx.Connect(t.Context(), url)
	must.OK(t, err)
	_, err = conn.Exec(t.Context(), inbox.PostgresTable)
	must.OK(t, err)
	must.OK(t, conn.Close(t.Context()))
	return url
}

// onPostgres are the rules about PostgreSQL.
const onPostgres = "DuehookPostgres"

// TestRulesOnEveryStore: no rule is silent because the metric that it watches does not exist.
func TestRulesOnEveryStore(t *testing.T) {
	url := startPostgres(t)
	for name, flags := range map[string][]string{"embedded": nil, "postgres": {"--postgres-url", url}} {
		t.Run(name, func(t *testing.T) {
			base := start(t, append(flags, "--inbox-url", "orders="+url)...)
			work(t, base)
			rules := slices.DeleteFunc(alertRules(t), func(q query) bool { return name != "postgres" && strings.HasPrefix(q.where, onPostgres) })
			exist(t, base, rules)
		})
	}
}

// TestEveryMetricExists: after some work, each metric, label and value that a
// rule or a panel names is there on Redis, which has all metrics but those of PostgreSQL.
func TestEveryMetricExists(t *testing.T) {
	base := start(t, "--redis-url", testenv.StartRedis(t).URL(), "--inbox-url", "orders="+startPostgres(t))
	work(t, base)
	queries := slices.DeleteFunc(slices.Concat(alertRules(t), panels(t)), func(q query) bool { return strings.HasPrefix(q.where, onPostgres) })
	if len(queries) < 30 {
		t.Fatalf("only %d queries were found", len(queries))
	}
	exist(t, base, queries)
	var wrong []string
	metrics := scrape(t, base)
	shown := func(name string) bool {
		return slices.ContainsFunc(queries, func(q query) bool { return strings.Contains(q.expr, name) })
	}
	families := map[string]bool{}
	for name := range metrics {
		families[partOfHistogram.ReplaceAllString(name, "")] = strings.HasPrefix(name, "duehook_")
	}
	for family, ours := range families {
		if ours && shown(family) == slices.Contains(forDetails, family) {
			wrong = append(wrong, family+" needs a rule or a panel, or a place in forDetails")
		}
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

var partOfHistogram = regexp.MustCompile("_(bucket|sum|count)$")

// forDetails are the metrics without a rule and a panel. They explain what others show.
var forDetails = []string{
	"duehook_carry_seconds", "duehook_carry_rounds_total", "duehook_carrier_lock_held", "duehook_purged_total",
	"duehook_connect_retries_total", "duehook_dials_total", "duehook_inbox_rows_total", "duehook_http_request_seconds",
	"duehook_operation_ended_total", "duehook_operation_working", "duehook_restore_last_pass_timestamp_seconds",
	"duehook_restore_pass_seconds", "duehook_restore_repaired_total", "duehook_schedule_decision_delay_seconds",
	"duehook_settle_stale_total", "duehook_topics_set", "duehook_pull_leases_total", "duehook_pull_answers_total", "duehook_pull_waiting",
}

// What is wrong is found.
func TestWrongQueries(t *testing.T) {
	e := exposed{
		"duehook_jobs":           {"state": {"dead", "waiting"}},
		"duehook_seconds_bucket": {"le": nil},
	}
	for _, c := range []struct{ expr, legend, want string }{
		{`sum by (state) (duehook_jobs{state="dead", job="x"})`, "{{state}}", ""},
		{`histogram_quantile(0.9, sum by (le) (rate(duehook_seconds_bucket[5m])))`, "p90", ""},
		{`duehook_jobs{state=~"dead|waiting"}`, "", ""},
		{`sum(duehook_jobs`, "", "unclosed left parenthesis"},
		{`duehook_jobz`, "", "duehook_jobz does not exist"},
		{`duehook_jobs{stat="dead"}`, "", "has no label stat"},
		{`duehook_jobs{state="late"}`, "", `has no state "late"`},
		{`duehook_jobs{state=~"dead|late"}`, "", `has no state "late"`},
		{`sum by (topic) (duehook_jobs)`, "", "groups by topic"},
		{`sum(duehook_jobs)`, "{{ $labels.state }}", "shows state"},
	} {
		got := strings.Join(e.wrongWith(query{"", c.expr, c.legend}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.expr, got, c.want)
		}
	}
}
