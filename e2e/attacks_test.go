package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// attack is how a client, or a receiver alone, makes a node keep more than it was given.
type attack struct {
	name string
	// begin registers. Hostile receivers answer at victims, and the callbacks are for callbacks.
	begin func(t *testing.T, base, victims, callbacks string)
	// deliver answers deliveries. Callbacks are never accepted.
	deliver http.HandlerFunc
	// gave is roughly what was registered, in bytes; keeps is how many times as much may be kept.
	gave, keeps int
}

const (
	attackFor    = time.Minute
	attackSample = 10 * time.Second
	// attackMemory is the maxmemory of Redis. Outcomes are stored beyond it, by attackBeyond at most.
	attackMemory, attackBeyond = 60 << 20, 30 << 20
	attackBody                 = 200 << 10
)

var padding = strings.Repeat("x", 1<<20)

func failing(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, padding[:64<<10])
}

var attacks = []attack{
	{
		name: "callbacks of failed attempts", deliver: failing, gave: 6 * attackBody, keeps: 4,
		begin: func(t *testing.T, base, victims, callbacks string) {
			must(t, http.StatusCreated, "PUT", base+"/v1/topics/attack", map[string]any{"capacity": 5})
			for i := range 6 {
				_, _ = call(t.Context(), "POST", base+"/v1/jobs", nil, map[string]any{ // the last may find the topic full
					"topic": "attack", "id": fmt.Sprint(i), "url": victims, "body_text": padding[:attackBody], "retry": map[string]any{"steps": []string{"10ms"}, "limit": 500},
					"callbacks": map[string]any{"include_request": true, "attempt_failed": map[string]any{"url": callbacks}, "dead": map[string]any{"url": callbacks}},
				})
			}
		},
	},
	{
		name: "headers of callbacks of a group", deliver: failing, gave: 1 << 20, keeps: 4,
		begin: func(t *testing.T, base, victims, callbacks string) {
			var members []map[string]any
			for i := range 1000 {
				members = append(members, map[string]any{"name": fmt.Sprint("m", i), "url": victims})
			}
			must(t, http.StatusCreated, "PUT", base+"/v1/groups/attack", map[string]any{"members": members})
			each := map[string]any{}
			for _, event := range []string{"delivered", "dead", "expired", "cancelled", "attempt_failed"} {
				each[event] = map[string]any{"url": callbacks, "headers": map[string]string{"x-pad": padding[:16<<10]}}
			}
			answer, err := call(t.Context(), "POST", base+"/v1/jobs", nil, map[string]any{"topic": "attack", "group": "attack", "callbacks": each})
			if err != nil || answer.status/100 != 4 {
				t.Errorf("%d %v: %.300s", answer.status, err, answer.body)
			}
		},
	},
	{
		name: "occurrences with a jitter", deliver: failing, gave: attackBody, keeps: 100,
		begin: func(t *testing.T, base, victims, _ string) {
			for _, jitter := range []string{"24h", "1000s"} { // the former is refused
				answer, err := call(t.Context(), "PUT", base+"/v1/schedules/attack", nil, map[string]any{
					"every": "1s", "jitter": jitter, "job": map[string]any{"topic": "attack", "url": victims, "body_text": padding[:attackBody]},
				})
				t.Logf("jitter %s: %d %v %.200s", jitter, answer.status, err, answer.body)
			}
		},
	},
}

// TestSoakAttacks makes each attack for a minute, on both stores, and reports what the node and
// Redis take. Jobs of others go on meanwhile.
func TestSoakAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name+"/embedded", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := newNode(t, shipped, "node", "--data-dir", dir)
			n.start()
			kept := a.run(t, n, func() int { return sizeOf(t, dir) })
			if most := a.keeps*a.gave + 256<<20; kept > most { // the engine also has logs, and tables that it merges later
				t.Errorf("the directory has %d MB, more than %d", kept>>20, most>>20)
			}
		})
		t.Run(a.name+"/Redis", func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, testenv.WithMaxMemory(fmt.Sprint(attackMemory)))
			admin := control(t, server)
			n := startNodes(t, shipped, "node", server.URL())[0]
			kept := a.run(t, n, func() int { return usedMemory(t, admin) })
			if most := min(a.keeps*a.gave+10<<20, attackMemory+attackBeyond); kept > most {
				t.Errorf("Redis uses %d MB, more than %d", kept>>20, most>>20)
			}
		})
	}
}

// run makes the attack, and returns the most that the store kept, by its own figure.
func (a *attack) run(t *testing.T, n *node, stored func() int) (most int) {
	victims := httptest.NewServer(a.deliver)
	t.Cleanup(victims.Close)
	callbacks := httptest.NewServer(http.HandlerFunc(failing))
	t.Cleanup(callbacks.Close)
	others := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(others.Close)
	a.begin(t, n.base(), victims.URL, callbacks.URL)
	var line bytes.Buffer
	refused, asked, begun, next := 0, 0, clock.Now(), attackSample
	for passed := time.Duration(0); passed < attackFor; {
		pause(t, time.Second)
		passed = clock.Now().Sub(begun)
		asked++
		if answer, err := call(t.Context(), "POST", n.base()+"/v1/jobs", nil, map[string]any{"topic": "others", "url": others.URL}); err != nil || answer.status != http.StatusCreated {
			refused++
		}
		kept := stored()
		if most = max(most, kept); passed >= next {
			fmt.Fprintf(&line, " %d/%d", n.memory("VmRSS")>>20, kept>>20)
			next += attackSample
		}
	}
	t.Logf("%s: MB of the node/of the store each %v:%s; at most %d/%d; %d of %d registrations of others refused",
		t.Name(), attackSample, line.String(), n.memory("VmHWM")>>20, most>>20, refused, asked)
	return most
}

// sizeOf is the size of the files in a directory.
func sizeOf(t *testing.T, dir string) (size int) {
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the engine deletes files meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil {
			size += int(info.Size())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func usedMemory(t *testing.T, admin *redis.Client) int {
	t.Helper()
	info, err := admin.InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	var used int
	if _, err := fmt.Sscan(info["Memory"]["used_memory"], &used); err != nil {
		t.Fatal(err)
	}
	return used
}
