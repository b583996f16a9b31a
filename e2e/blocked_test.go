package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/hostile"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

const corpus = "../testdata/destinations/forbidden.json"

// minTargets is how many forbidden targets the corpus has to have.
const minTargets = 60

// blockedTopic is the topic of the jobs for them.
const blockedTopic = "blocked"

// TestForbiddenTargets: what is plainly forbidden is refused when it is
// registered, and the rest when it is called; no connection is made; and all
// refusals look the same.
func TestForbiddenTargets(t *testing.T) {
	t.Parallel()
	w := startWatch(t)
	targets := hostile.Targets(t, corpus, w.Places)
	if len(targets) < minTargets {
		t.Fatalf("only %d targets", len(targets))
	}
	n := startHere(t, targets, publicRange)
	accepted := registerTargets(t, n.base, w, targets)
	unreached := 0
	for id, target := range accepted {
		j := awaitEnd(t, n.base, id)
		checkEnd(t, n.base, j, target)
		if target.Ends == "connection_failed" {
			unreached += j.Attempts
		}
	}
	w.checkNothingForbidden(t)
	// What the guard let pass is what arrived where that is permitted.
	permitted, refused := dials(t, n.base)
	if arrived := int(w.permitted.Load()); permitted != arrived+unreached {
		t.Errorf("%d dials were let pass; %d arrived, %d could not", permitted, arrived, unreached)
	}
	t.Logf("%d targets, %d refused when registered; %d dials refused, %d let pass, %d connections to forbidden addresses",
		len(targets), len(targets)-len(accepted), refused, permitted, w.forbidden.Load())
	if refused == 0 {
		t.Error("no dial was refused")
	}
}

// TestForbiddenTargetsInTheStore: jobs that were not judged when they were
// registered are refused just the same.
func TestForbiddenTargetsInTheStore(t *testing.T) {
	t.Parallel()
	w := startWatch(t)
	targets := hostile.Targets(t, corpus, w.Places)
	n := startHere(t, targets, publicRange)
	var regs []store.Registration
	for i, target := range targets {
		regs = append(regs, store.Registration{
			Key: job.Key{Topic: blockedTopic, ID: strconv.Itoa(i)}, UID: fmt.Sprint("uid-", i),
			Spec: job.Spec{Destination: job.Destination(target.JobURL(w.Places)), Retry: &job.Retry{Limit: new(int)}},
		})
	}
	if _, err := n.store.Register(t.Context(), regs); err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for i := range targets {
		ends[awaitEnd(t, n.base, strconv.Itoa(i)).lastError()]++
	}
	w.checkNothingForbidden(t)
	permitted, refused := dials(t, n.base)
	t.Logf("%d jobs; %d dials refused, %d let pass, %d of them arrived; errors %v",
		len(targets), refused, permitted, w.permitted.Load(), ends)
	if ends[hostile.Blocked] < minTargets {
		t.Errorf("only %d were refused when called", ends[hostile.Blocked])
	}
}

// TestForbiddenTargetsOnARealNode is the same for the binary, with the targets
// that need no name server of our own.
func TestForbiddenTargetsOnARealNode(t *testing.T) {
	t.Parallel()
	w := startWatch(t)
	var targets []hostile.Target
	for _, target := range hostile.Targets(t, corpus, w.Places) {
		if target.Names == nil {
			targets = append(targets, target)
		}
	}
	n := newNode(t, raced, "node")
	n.Args = []string{
		"serve", "--addr", "127.0.0.1:0", "--log-format", "json", "--data-dir", t.TempDir(),
		"--allow-cidrs", publicRange.String(),
	}
	n.start()
	for id, target := range registerTargets(t, n.base(), w, targets) {
		checkEnd(t, n.base(), awaitEnd(t, n.base(), id), target)
	}
	w.checkNothingForbidden(t)
	if permitted, _ := dials(t, n.base()); permitted != int(w.permitted.Load()) {
		t.Errorf("%d dials were let pass, %d arrived", permitted, w.permitted.Load())
	}
}

// TestForbiddenTargetsCount is the control of the tests above: where the guard
// allows it, the targets that lead here do get here, and are counted.
func TestForbiddenTargetsCount(t *testing.T) {
	t.Parallel()
	w := startWatch(t)
	allow := []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::/128"),
	}
	for _, a := range hostile.OwnAddresses(t) {
		allow = append(allow, netip.PrefixFrom(a, a.BitLen()))
	}
	var targets []hostile.Target
	for _, target := range hostile.Targets(t, corpus, w.Places) {
		if target.Here && (w.ipv6 || !needsIPv6(target)) {
			target.Answer = "accepted"
			targets = append(targets, target)
		}
	}
	n := startHere(t, targets, allow...)
	for id, target := range registerTargets(t, n.base, w, targets) {
		j := awaitEnd(t, n.base, id)
		if secure := strings.HasPrefix(target.URL, "https"); j.State != "delivered" && !(secure && strings.HasPrefix(j.lastError(), "tls_")) {
			t.Errorf("%s: %s: %s, error %q", target.Why, target.URL, j.State, j.lastError())
		}
	}
	arrived := int(w.forbidden.Load())
	permitted, refused := dials(t, n.base)
	t.Logf("%d targets: %d connections, %d dials let pass, %d refused", len(targets), arrived, permitted, refused)
	if arrived < len(targets) || permitted < len(targets) || refused > 0 {
		t.Errorf("%d targets that are allowed made %d connections; %d dials were let pass, %d refused",
			len(targets), arrived, permitted, refused)
	}
}

// needsIPv6 reports whether all that the target leads to is IPv6.
func needsIPv6(target hostile.Target) bool {
	u, err := url.Parse(target.URL)
	if err != nil {
		return false
	}
	addrs := []string{u.Hostname()}
	for _, turns := range target.Names {
		addrs = turns[0]
	}
	for _, text := range addrs {
		if a, err := netip.ParseAddr(text); err != nil || a.Unmap().Is4() {
			return false
		}
	}
	return true
}

// registerTargets registers a job for each target, checks the answers, and
// gives the targets that were accepted by the id of their job.
func registerTargets(t *testing.T, base string, w *watch, targets []hostile.Target) map[string]hostile.Target {
	t.Helper()
	accepted := map[string]hostile.Target{}
	refusal := ""
	for i, target := range targets {
		id := strconv.Itoa(i)
		r := registration{
			Topic: blockedTopic, ID: id, URL: target.JobURL(w.Places),
			Retry: map[string]any{"steps": []string{"1ms"}, "limit": 3},
		}
		a, err := call(t.Context(), "POST", base+"/v1/jobs", nil, r)
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Code string }
		if a.status != http.StatusCreated {
			a.into(t, &problem)
		}
		switch {
		case a.status == http.StatusCreated && target.Answer == "accepted":
			accepted[id] = target
		case a.status != http.StatusUnprocessableEntity || problem.Code != target.Answer:
			t.Errorf("%s: %s: %d %s, want %s", target.Why, r.URL, a.status, a.body, target.Answer)
		case problem.Code == hostile.Blocked:
			if refusal == "" {
				refusal = string(a.body)
			}
			if diff := cmp.Diff(refusal, string(a.body)); diff != "" {
				t.Errorf("%s: refused in other words than the first:\n%s", target.Why, diff)
			}
		}
	}
	return accepted
}

// awaitEnd waits until a job has ended.
func awaitEnd(t *testing.T, base, id string) blockedJob {
	t.Helper()
	var j blockedJob
	testenv.Eventually(t, testenv.Patience, func() bool {
		must(t, http.StatusOK, "GET", base+"/v1/jobs/"+blockedTopic+"/"+id, nil).into(t, &j)
		return j.State == "dead" || j.State == "delivered"
	}, "job "+id+" ends")
	return j
}

// blockedJob is all that is shown of a job but its URL.
type blockedJob struct {
	jobView
	LastAttempt map[string]any `json:"last_attempt"`
}

func (j blockedJob) lastError() string {
	text, _ := j.LastAttempt["error"].(string)
	return text
}

func checkEnd(t *testing.T, base string, j blockedJob, target hostile.Target) {
	t.Helper()
	if target.Ends != "" {
		state, class := "dead", target.Ends
		if target.Ends == "delivered" {
			state, class = "delivered", ""
		}
		if j.State != state || j.lastError() != class {
			t.Errorf("%s: %s, error %q; want %s", target.Why, j.State, j.lastError(), target.Ends)
		}
		return
	}
	if j.State != "dead" || j.Reason != hostile.Blocked || j.Attempts != max(target.Attempts, 1) {
		t.Errorf("%s: %s with reason %q after %d attempts", target.Why, j.State, j.Reason, j.Attempts)
	}
	var log struct{ Data []map[string]any }
	must(t, http.StatusOK, "GET", base+"/v1/jobs/"+blockedTopic+"/"+j.ID+"/attempts", nil).into(t, &log)
	checkSaysNothing(t, target, j.LastAttempt)
	checkSaysNothing(t, target, log.Data[len(log.Data)-1])
}

// checkSaysNothing: of an attempt that was refused, a tenant learns nothing but
// that: no times, which would tell of our network.
func checkSaysNothing(t *testing.T, target hostile.Target, attempt map[string]any) {
	t.Helper()
	for name, value := range attempt {
		switch name {
		case "number", "started_at", "version": // are of the job
		case "error", "reason":
			if value != hostile.Blocked {
				t.Errorf("%s: %s is %v", target.Why, name, value)
			}
		case "response_headers":
			if headers, ok := value.(map[string]any); !ok || len(headers) > 0 {
				t.Errorf("%s: %s tells %v", target.Why, name, value)
			}
		default:
			if value != nil && value != false && value != 0.0 {
				t.Errorf("%s: %s tells %v", target.Why, name, value)
			}
		}
	}
}

var dialsTotal = regexp.MustCompile(`duehook_dials_total\{verdict="(\w+)"\} (\d+)`)

// dials is how many dials the guard has let pass, and how many not.
func dials(t *testing.T, base string) (permitted, refused int) {
	t.Helper()
	text := string(must(t, http.StatusOK, "GET", base+"/metrics", nil).body)
	found := map[string]int{}
	for _, m := range dialsTotal.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		found[m[1]] = n
	}
	if len(found) != 2 {
		t.Fatalf("the metrics tell of dials: %v", found)
	}
	return found["permitted"], found["refused"]
}
