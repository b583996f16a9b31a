// Package languages_test plays the examples with the runtimes that this machine has, and holds
// them against docs/languages.
package languages_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/duehooktest"
)

// languages are the pages, their files, and how a driver is run. A driver makes the step that
// its first argument names: placed and paid take an order, verify takes id, time, signature and
// body, and prints true or false.
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
		page, err := os.ReadFile(filepath.Join("../../docs/languages", l.page+".md"))
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
			run := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], args...)...)
				cmd.Dir = "testdata"
				cmd.Env = append(os.Environ(), "DUEHOOK_URL="+s.URL, "SHOP_URL="+shop.URL("/close"), "PYTHONDONTWRITEBYTECODE=1")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			run("placed", "1")
			run("placed", "1") // as after a lost answer
			run("placed", "2")
			run("paid", "2")
			s.Advance(time.Hour)
			if got := shop.Requests(); len(got) != 2 || string(got[0].Body) != string(got[1].Body) || !strings.Contains(string(got[0].Body), "1") {
				t.Errorf("the shop got %v, want order 1 and its retry", got)
			}

			now := fmt.Sprint(time.Now().Unix())
			const body = `{"order":1,"名":"é"}`
			signed := sign("id", now, body)
			for _, v := range []struct {
				name, id, time, signature, body, want string
			}{
				{"genuine", "id", now, signed, body, "true"},
				{"one of two signatures", "id", now, "v1,AAAA " + signed, body, "true"},
				{"another body", "id", now, signed, body + " ", "false"},
				{"another id", "id2", now, signed, body, "false"},
				{"too old", "id", "1700000000", sign("id", "1700000000", body), body, "false"},
				{"no signature", "id", now, "", body, "false"},
			} {
				if got := run("verify", v.id, v.time, v.signature, v.body, duehooktest.Secret); got != v.want {
					t.Errorf("%s: %s", v.name, got)
				}
			}
		})
	}
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
