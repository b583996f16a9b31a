package docs

import (
	"bytes"
	"cmp"
	"log/slog"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/testing/testenv"
)

var (
	// played are the examples that httpapi/v1 plays, with their answers.
	played = regexp.MustCompile(`(?s)<!-- example .*?<!-- end of example -->`)
	// shell are the blocks of commands, also in lists.
	shell = regexp.MustCompile("(?ms)^ *```(?:sh|console)\n(.*?)^ *```$")
	// prompt begins a command of a console.
	prompt = regexp.MustCompile(`(?m)^\$ `)
	// comment is what a shell ignores.
	comment = regexp.MustCompile(` *#.*`)
	// server is where the examples call duehook.
	server = regexp.MustCompile(`^(http://127\.0\.0\.1:7788|https://duehook\.example)/`)
)

// earlier has the jobs that the examples assume. The second one has ended. The third one waits for the consumer of pull.md,
// who would wait 20 s without it.
const earlier = `
curl http://127.0.0.1:7788/v1/jobs -H 'Content-Type: application/json' -d '{"topic": "order-timeout", "id": "order-8812", "url": "https://shop.example/hook", "delay": "1h"}'
curl http://127.0.0.1:7788/v1/jobs -H 'Content-Type: application/json' -d '{"topic": "payment-notify", "id": "payment-551", "url": "https://shop.example/hook", "delay": "1h"}'
curl -X DELETE http://127.0.0.1:7788/v1/jobs/payment-notify/payment-551
curl http://127.0.0.1:7788/v1/jobs -H 'Content-Type: application/json' -d '{"topic": "orders", "pull": true}'
`

// TestExamplesAreAccepted: a node that requires keys accepts each curl command of the
// documents. The README's command has a test in e2e.
func TestExamplesAreAccepted(t *testing.T) {
	n := startNode(t)
	n.play("earlier", earlier)
	all := documents(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "docs/") || slices.Contains([]string{"docs/zh", "docs/adr"}, filepath.Dir(name)) || name == "docs/migrate/mykit.md" {
			continue // translations have the same commands; the dialect of mykit is off
		}
		for _, block := range shell.FindAllStringSubmatch(played.ReplaceAllString(all[name], ""), -1) {
			if strings.Contains(block[1], "curl ") {
				n.play(name, prompt.ReplaceAllString(block[1], ""))
			}
		}
	}
	if n.calls < 25 {
		t.Errorf("only %d commands found: the pattern has gone wrong", n.calls)
	}
}

// TestTranslationHasTheCommands: README and quick start have the same commands in each language.
func TestTranslationHasTheCommands(t *testing.T) {
	all := documents(t)
	commands := func(name string) string {
		return comment.ReplaceAllString(strings.Join(fence.FindAllString(all[name], -1), "\n"), "")
	}
	for chinese, english := range map[string]string{"README.zh-CN.md": "README.md", "docs/zh/quickstart.md": "docs/quickstart.md"} {
		if got, want := commands(chinese), commands(english); got != want || want == "" {
			t.Errorf("%s has\n%s\n%s has\n%s", chinese, got, english, want)
		}
	}
}

var (
	figure  = regexp.MustCompile(`\d(?:[\d,.]*\d)?`)
	code    = regexp.MustCompile("`[^`\n]+`")
	chapter = regexp.MustCompile(`(?m)^## `)
	han     = regexp.MustCompile(`\p{Han}`)
	address = regexp.MustCompile(`\]\([^)]*\)`)
)

// TestTranslationHasTheFacts: each number and each name in code of a Chinese page is in its English page. A page in full has
// as many chapters.
func TestTranslationHasTheFacts(t *testing.T) {
	all := documents(t)
	pages := map[string]string{"README.zh-CN.md": "README.md"}
	for name := range all {
		if page, ok := strings.CutPrefix(name, "docs/zh/"); ok {
			pages[name] = "docs/" + page
		}
	}
	if len(pages) < 7 {
		t.Errorf("only %d pages found: %v", len(pages), pages)
	}
	excerpts := []string{"docs/zh/limits.md", "docs/zh/receivers.md", "docs/zh/which-store.md"}
	for chinese, english := range pages {
		text, original := fence.ReplaceAllString(all[chinese], ""), all[english]
		if original == "" {
			t.Errorf("%s has no English page", chinese)
		}
		if !slices.Contains(excerpts, chinese) {
			if got, want := len(chapter.FindAllString(text, -1)), len(chapter.FindAllString(fence.ReplaceAllString(original, ""), -1)); got != want {
				t.Errorf("%s has %d chapters, %s has %d", chinese, got, english, want)
			}
		}
		if chinese == "docs/zh/receivers.md" {
			original += all["docs/howto/deduplicate.md"]
		}
		for _, block := range fence.FindAllString(all[chinese], -1) {
			if strings.HasPrefix(block, "```sql") && !strings.Contains(original, block) {
				t.Errorf("%s has\n%s\n%s does not", chinese, block, english)
			}
		}
		figures := figure.FindAllString(original, -1)
		for _, n := range figure.FindAllString(address.ReplaceAllString(text, ""), -1) {
			if !slices.Contains(figures, n) {
				t.Errorf("%s has the number %s, %s does not", chinese, n, english)
			}
		}
		for _, c := range code.FindAllString(text, -1) {
			if !strings.Contains(original, c) && !han.MatchString(c) {
				t.Errorf("%s has %s, %s does not", chinese, c, english)
			}
		}
	}
}

type running struct {
	t           *testing.T
	base, token string
	calls       int
}

// startNode runs a node on Redis until the test ends.
func startNode(t *testing.T) *running {
	t.Helper()
	token, key, err := access.Draft{Scope: "admin"}.Key(access.DefaultNamespace, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load([]string{
		"--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--api-keys", key.Line(), "--allow-cidrs=127.0.0.0/8",
		"--redis-url", testenv.StartRedis(t).URL(),
	}, nil)
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
	})
	return &running{t: t, base: base, token: token.Reveal()}
}

// play makes the calls of a script. A shell reads the script, with a curl that only
// prints its arguments.
func (n *running) play(where, script string) {
	n.t.Helper()
	sh := exec.CommandContext(n.t.Context(), "sh", "-eu", "-c", `curl() { printf '%s\0' "$@"; printf '\1'; }`+"\n"+script)
	sh.Env = []string{"TOKEN=" + n.token, "ADMIN=" + n.token}
	out, err := sh.Output()
	if err != nil {
		n.t.Errorf("%s: %v in\n%s", where, err, script)
	}
	for args := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00\x01"), "\x00\x01") {
		n.call(where, strings.Split(args, "\x00"))
	}
}

// call makes the call of a curl command.
func (n *running) call(where string, args []string) {
	n.t.Helper()
	n.calls++
	method, url, body := "", "", ""
	headers := http.Header{"Authorization": {"Bearer " + n.token}}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-N" || arg == "-i": // no buffering; the head of the answer
		case i+1 < len(args) && arg == "-X":
			i++
			method = args[i]
		case i+1 < len(args) && arg == "-d":
			i++
			body = args[i]
			headers.Set("Content-Type", cmp.Or(headers.Get("Content-Type"), "application/x-www-form-urlencoded")) // as curl does
		case i+1 < len(args) && arg == "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			headers.Set(name, value)
		case server.MatchString(arg) && url == "":
			url = server.ReplaceAllString(arg, n.base+"/")
		default:
			n.t.Errorf("%s: the test does not know %q of curl %q", where, arg, args)
		}
	}
	if method == "" && body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(n.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		n.t.Fatalf("%s: %v", where, err)
	}
	req.Header = headers
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatalf("%s: %v", where, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		var answer bytes.Buffer
		_, _ = answer.ReadFrom(resp.Body)
		n.t.Errorf("%s: %q was answered with %s: %s", where, args, resp.Status, &answer)
	}
}
