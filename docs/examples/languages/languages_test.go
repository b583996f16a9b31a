// Package languages_test plays the examples with the runtimes that this machine has, and holds
// them against docs/languages.
package languages_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/duehooktest"
)

// languages are the pages, their files, and how a driver is run. A driver makes the step that
// its first argument names: placed and paid take an order, verify takes id, time, signature, body and secret of
// each delivery, and prints true or false for each.
var languages = []struct {
	page, file, driver string
	command            []string
}{
	{"typescript", "orders.ts", "driver.mjs", []string{"node", "driver.mjs"}},
	{"python", "orders.py", "driver.py", []string{"python3", "driver.py"}},
	{"java", "Orders.java", "Driver.java", []string{"java", "-cp", "{classes}", "Driver"}},
	{"php", "orders.php", "driver.php", []string{"php", "driver.php"}},
}

func TestPagesShowTheFiles(t *testing.T) {
	for _, l := range languages {
		file, err := os.ReadFile(l.file)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join("../../languages", l.page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n"+string(file)+"```\n") {
			t.Errorf("docs/languages/%s.md does not show %s as it is", l.page, l.file)
		}
	}
}

func TestLanguages(t *testing.T) {
	for _, l := range languages {
		if _, err := exec.LookPath(l.command[0]); err != nil {
			t.Logf("%s is not here: %s is not played", l.command[0], l.file)
			continue
		}
		t.Run(l.page, func(t *testing.T) {
			t.Parallel()
			s := duehooktest.Start(t)
			shop := s.Sink("shop")
			shop.Answer(duehooktest.Answer{Status: 503}, duehooktest.Answer{Status: 200})
			command := strings.Split(strings.ReplaceAll(strings.Join(l.command, "\x00"), "{classes}", classes(t, l.command[0])), "\x00")
			runAt := func(address, token string, args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], args...)...)
				cmd.Dir = "testdata"
				cmd.Env = append(os.Environ(), "DUEHOOK_URL="+address, "SHOP_URL="+shop.URL("/close"), "PYTHONDONTWRITEBYTECODE=1")
				if token != "" {
					cmd.Env = append(cmd.Env, "DUEHOOK_TOKEN="+token)
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			run := func(args ...string) string { return runAt(s.URL, "", args...) }
			run("placed", "1")
			run("placed", "1") // as after a lost answer
			run("placed", "2")
			if got := run("paid", "2"); got != "true" {
				t.Errorf("a job that was cancelled: %s", got)
			}
			s.Advance(time.Hour)
			if got := shop.Requests(); len(got) != 2 || string(got[0].Body) != string(got[1].Body) || !strings.Contains(string(got[0].Body), "1") {
				t.Errorf("the shop got %v, want order 1 and its retry", got)
			}

			now := fmt.Sprint(time.Now().Unix())
			const body = `{"order":1,"名":"é"}`
			signed := sign("id", now, body)
			deliveries := []struct {
				name, id, time, signature, body, want string
			}{
				{"genuine", "id", now, signed, body, "true"},
				{"one of two signatures", "id", now, "v1,AAAA " + signed, body, "true"},
				{"another body", "id", now, signed, body + " ", "false"},
				{"another id", "id2", now, signed, body, "false"},
				{"too old", "id", "1700000000", sign("id", "1700000000", body), body, "false"},
				{"no signature", "id", now, "", body, "false"},
				{"no id", "", now, signed, body, "false"},
				{"no time", "id", "", signed, body, "false"},
				{"a time that is none", "id", "soon", signed, body, "false"},
				{"a time out of range", "id", strings.Repeat("9", 30), signed, body, "false"},
				{"a signature that is no ASCII", "id", now, "v1," + strings.Repeat("é", len(signed)-3), body, "false"},
				{"an id that is no UTF-8", "\xff", now, signed, body, "false"},
				{"a signature that is no UTF-8", "id", now, "v1,\xff\xed\xa0\x80", body, "false"},
				{"signatures of all kinds", "id", now, "  v2,x v1 v1,= " + signed + " é", body, "true"},
			}
			args := []string{"verify"}
			for _, d := range deliveries {
				args = append(args, d.id, d.time, d.signature, d.body, duehooktest.Secret)
			}
			verified := strings.Fields(run(args...))
			if len(verified) != len(deliveries) {
				t.Fatalf("%d deliveries, verified %v", len(deliveries), verified)
			}
			for i, d := range deliveries {
				if verified[i] != d.want {
					t.Errorf("%s: %s", d.name, verified[i])
				}
			}
			answers := fakeServer(t)
			if got := runAt(answers.URL, "", "paid", "bestellung-é:1"); got != "false" {
				t.Errorf("an attempt in flight: %s", got)
			}
			if want := "DELETE /v1/jobs/orders/bestellung-%C3%A9%3A1 none"; !strings.EqualFold(<-answers.got, want) {
				t.Errorf("the server did not get %s", want)
			}
			if runAt(answers.URL, "dh_x", "placed", "é"); <-answers.got != "POST /v1/jobs Bearer dh_x" {
				t.Error("the server did not get the token")
			}
		})
	}
}

// fake answers 202 to everything, as if an attempt was in flight.
type fake struct {
	*httptest.Server
	got chan string // method, path and credentials of each request
}

func fakeServer(t *testing.T) *fake {
	t.Helper()
	f := &fake{got: make(chan string, 1)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.got <- fmt.Sprint(r.Method, " ", r.URL.EscapedPath(), " ", cmp.Or(r.Header.Get("Authorization"), "none"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"result":"in_flight"}`))
	}))
	t.Cleanup(f.Close)
	return f
}

// classes compiles the Java example once, since a virtual machine starts for each step.
func classes(t *testing.T, command string) string {
	t.Helper()
	if command != "java" {
		return ""
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "javac", "-d", dir, "Orders.java", "testdata/Driver.java").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func sign(id, at, body string) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(duehooktest.Secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
