package config

import (
	"errors"
	"flag"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/retrypolicy"
)

var update = flag.Bool("update", false, "write golden files and docs/settings.md anew")

const (
	keyID     = "abcdefgh"
	keyDigest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	keyLine   = "name=ci id=" + keyID + " scope=write sha256=" + keyDigest
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, args, environ []string) *Config {
	t.Helper()
	c, err := Load(args, environ)
	if err != nil {
		t.Fatalf("Load(%q, %q): %v", args, environ, err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	got := Default()
	want := &Config{
		Addr: "127.0.0.1:7788", MaxBody: 256 << 10, MemoryBudget: 128 << 20, Grace: 15 * time.Second, Dashboard: true,
		DataDir:   "./duehook-data",
		Namespace: "default", Shards: 1, RedisReplicaWait: time.Second, Retention: time.Hour,
		PostgresSchema: "duehook", PostgresConnections: 10, InboxPoll: time.Second,
		Signing: "on", Timeout: 15 * time.Second, MaxTimeout: time.Minute,
		RetrySteps: retrypolicy.Default().Steps, RetryJitter: retrypolicy.DefaultJitter, Deliver: true, Workers: 512, Lease: 25 * time.Second, Visibility: 15 * time.Second,
		EndpointConcurrency: 256, CatchUpRate: 100, ConnectRetries: 2, CallbackResponse: 4 << 10, ScheduleRate: 1000, ReadyCap: 1000, BreakerFailures: 20, BreakerOpen: 10 * time.Second,
		LogLevel: slog.LevelInfo, LogFormat: "auto",
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "origins" }, cmp.Ignore())); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// Each source beats those below it, whichever of the others speak too.
func TestPrecedence(t *testing.T) {
	file := write(t, "duehook.yaml", "workers: 2\n")
	for _, tc := range []struct {
		flag, env, file bool
		want            int
		origin          string
	}{
		{false, false, false, 512, "default"},
		{false, false, true, 2, "file " + file + ":1"},
		{false, true, false, 3, "environment DUEHOOK_WORKERS"},
		{false, true, true, 3, "environment DUEHOOK_WORKERS"},
		{true, false, false, 4, "flag --workers"},
		{true, false, true, 4, "flag --workers"},
		{true, true, false, 4, "flag --workers"},
		{true, true, true, 4, "flag --workers"},
	} {
		var args, environ []string
		if tc.file {
			args = append(args, "--config", file)
		}
		if tc.env {
			environ = append(environ, "DUEHOOK_WORKERS=3")
		}
		if tc.flag {
			args = append(args, "--workers=4")
		}
		c := load(t, args, environ)
		if c.Workers != tc.want || c.Origin("workers") != tc.origin {
			t.Errorf("flag %v, environment %v, file %v: %d from %q, want %d from %q",
				tc.flag, tc.env, tc.file, c.Workers, c.Origin("workers"), tc.want, tc.origin)
		}
	}
}

// A signing secret and a master key, of 32 zero bytes each.
const (
	testMasterKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	testSecret    = "whsec_" + testMasterKey
)

// Every setting can be given in all three ways under the names that follow
// from its flag.
func TestEverySettingFromEverySource(t *testing.T) {
	values := map[string]string{
		"addr": "127.0.0.1:9", "debug-addr": ":6060", "api-keys": keyLine, "insecure-no-api-keys": "true", "api-rate": "100/1s", "dashboard": "false", "dialects": "qstash",
		"tls-cert": "c.pem", "tls-key": "k.pem", "max-body": "8KiB", "memory-budget": "64MiB", "grace": "3s", "drain-delay": "4s", "data-dir": "/d", "redis-url": "redis://h:1",
		"namespace": "ns", "shards": "3", "postgres-url": "postgres://h:1/d", "postgres-direct-url": "postgres://h:2/d", "postgres-schema": "jobs", "postgres-connections": "20", "inbox-url": "orders=postgres://h:1/d", "inbox-topics": "orders=a*", "inbox-poll": "300ms", "redis-min-replicas": "2", "redis-replica-wait": "150ms", "retention": "2h", "deliver": "false", "start-paused": "true", "allow-cidrs": "10.0.0.0/8,fd00::/8",
		"timeout": "7s", "max-timeout": "50s", "retry-steps": "1s,2m", "retry-jitter": "0.25", "workers": "9", "endpoint-concurrency": "8", "topic-concurrency": "a=1,b=20", "catch-up-rate": "5", "connect-retries": "1", "callback-response": "8KiB", "schedule-rate": "8", "tzdata": "/z.zip",
		"ready-cap": "7", "lease": "1m", "visibility": "20s", "breaker-failures": "6", "breaker-open": "40s",
		"log-level": "debug", "log-format": "json",
		"signing": "off", "signing-secret": testSecret, "master-key": testMasterKey,
	}
	for i := range settings {
		s := &settings[i]
		value, ok := values[s.name]
		if !ok {
			t.Errorf("no value to try for %s", s.name)
			continue
		}
		needs := map[string][]string{
			"shards": {"--redis-url=redis://h:1"}, "redis-min-replicas": {"--redis-url=redis://h:1"}, "postgres-direct-url": {"--postgres-url=postgres://h:1/d"}, "inbox-topics": {"--inbox-url=orders=mysql://h:1/d"},
			"tls-cert": {"--tls-key=k"}, "tls-key": {"--tls-cert=c"},
		}[s.name]
		want := value
		if s.name == "api-keys" {
			want = "ci (" + keyID + ")"
		}
		if s.name == "signing-secret" || s.name == "master-key" {
			want = "***"
		}
		file := write(t, "c.yaml", s.key()+": "+value+"\n")
		for from, c := range map[string]*Config{
			"flag":        load(t, append(needs, "--"+s.name+"="+value), nil),
			"environment": load(t, needs, []string{s.env() + "=" + value}),
			"file":        load(t, append(needs, "--config", file), nil),
		} {
			if got := s.show(c); got != want {
				t.Errorf("%s from the %s: %q, want %q", s.name, from, got, want)
			}
			if !strings.HasPrefix(c.Origin(s.name), from+" ") {
				t.Errorf("%s from the %s: origin %q", s.name, from, c.Origin(s.name))
			}
		}
	}
}

func TestFileForms(t *testing.T) {
	file := write(t, "duehook.yaml", `
# comments are fine
retention: 0
retry_jitter: 0
timeout: PT5S
retry_steps: [15s, 3m, 90s]
allow_cidrs:
  - 10.0.0.0/8
  - 127.0.0.0/8
`)
	c := load(t, nil, []string{"DUEHOOK_CONFIG=" + file})
	if c.Retention != 0 || c.RetryJitter != 0 || c.Timeout != 5*time.Second {
		t.Errorf("retention %v, jitter %v, timeout %v", c.Retention, c.RetryJitter, c.Timeout)
	}
	if diff := cmp.Diff([]time.Duration{15 * time.Second, 3 * time.Minute, 90 * time.Second}, c.RetrySteps); diff != "" {
		t.Error(diff)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8")}
	if diff := cmp.Diff(want, c.AllowCIDRs, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if c := load(t, []string{"--config", write(t, "empty.yaml", "# nothing\n")}, nil); c.Workers != 512 {
		t.Errorf("an empty file changed the defaults")
	}
}

func TestRepeatedListFlagAdds(t *testing.T) {
	c := load(t, []string{"--allow-cidrs", "10.0.0.0/8", "--allow-cidrs", "127.0.0.0/8", "--workers", "1", "--workers", "2"}, nil)
	if len(c.AllowCIDRs) != 2 || c.Workers != 2 {
		t.Errorf("ranges %v, workers %d; want both ranges and the last number", c.AllowCIDRs, c.Workers)
	}
}

func TestSecretFromFile(t *testing.T) {
	path := write(t, "redis", "redis://:hunter2@db:6379/1\n")
	c := load(t, nil, []string{"DUEHOOK_REDIS_URL_FILE=" + path})
	if c.RedisURL != "redis://:hunter2@db:6379/1" || c.Origin("redis-url") != "environment DUEHOOK_REDIS_URL_FILE" {
		t.Errorf("%q from %q", c.RedisURL, c.Origin("redis-url"))
	}
}

func TestEmptyVariableIsUnset(t *testing.T) {
	c := load(t, nil, []string{"DUEHOOK_REDIS_URL=", "DUEHOOK_CONFIG=", "DUEHOOK_WORKERS="})
	if !c.Embedded() || c.Workers != 512 {
		t.Errorf("redis %q, workers %d", c.RedisURL, c.Workers)
	}
}

func TestKubernetesServiceVariablesAreNoSettings(t *testing.T) {
	load(t, nil, []string{
		"DUEHOOK_SERVICE_HOST=10.0.0.1", "DUEHOOK_SERVICE_PORT=7788", "DUEHOOK_SERVICE_PORT_HTTP=7788",
		"DUEHOOK_PORT=tcp://10.0.0.1:7788", "DUEHOOK_PORT_7788_TCP=tcp://10.0.0.1:7788",
		"DUEHOOK_PORT_7788_TCP_PROTO=tcp", "DUEHOOK_REDIS_SERVICE_HOST=10.0.0.2", "DUEHOOK_REDIS_PORT=tcp://10.0.0.2:6379",
	})
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name string
		args []string
		env  []string
		yaml string
		want string // part of the message
	}{
		{name: "unknown flag", args: []string{"--worker=3"}, want: "unknown flag --worker; did you mean --workers?"},
		{name: "unknown flag unlike any", args: []string{"--frobnicate"}, want: "unknown flag --frobnicate"},
		{name: "unknown short flag", args: []string{"-x"}, want: "unknown shorthand flag"},
		{name: "flag without value", args: []string{"--workers"}, want: "flag needs an argument: --workers"},
		{name: "argument", args: []string{"7788"}, want: `unexpected argument "7788"`},
		{name: "unknown variable", env: []string{"DUEHOOK_REDIS_URI=x"}, want: "unknown setting DUEHOOK_REDIS_URI in the environment; did you mean DUEHOOK_REDIS_URL?"},
		{name: "file variable of no secret", env: []string{"DUEHOOK_WORKERS_FILE=x"}, want: "unknown setting DUEHOOK_WORKERS_FILE"},
		{name: "secret twice", env: []string{"DUEHOOK_REDIS_URL=redis://h", "DUEHOOK_REDIS_URL_FILE=/dev/null"}, want: "both set"},
		{name: "secret file missing", env: []string{"DUEHOOK_REDIS_URL_FILE=" + dir + "/none"}, want: "DUEHOOK_REDIS_URL_FILE: open"},
		{name: "unknown key", yaml: "worker: 3", want: "c.yaml:1: unknown setting worker; did you mean workers?"},
		{name: "key with dash", yaml: "data-dir: x", want: "did you mean data_dir?"},
		{name: "key twice", yaml: "workers: 3\nworkers: 4", want: "workers"},
		{name: "null", yaml: "workers:", want: "has no value"},
		{name: "nested", yaml: "workers: {a: 1}", want: "write one plain value"},
		{name: "list for a number", yaml: "workers: [1]", want: "write one plain value"},
		{name: "mapping for a list", yaml: "retry_steps: {a: 1}", want: "write a list"},
		{name: "nested list", yaml: "retry_steps: [[1s]]", want: "list of plain values"},
		{name: "no mapping", yaml: "- workers", want: "name: value"},
		{name: "two documents", yaml: "workers: 1\n---\nworkers: 2", want: "one document"},
		{name: "broken", yaml: "workers: [", want: "c.yaml"},
		{name: "no such file", args: []string{"--config", dir + "/none.yaml"}, want: "settings file"},
		{name: "bad number in a file", yaml: "\nworkers: many", want: `c.yaml:2: workers: "many": write a whole number`},
		{name: "bad number in a flag", args: []string{"--workers=many"}, want: `--workers: "many": write a whole number`},
		{name: "bad number in a variable", env: []string{"DUEHOOK_WORKERS=many"}, want: `DUEHOOK_WORKERS: "many": write a whole number`},
		{name: "bad value although overridden", args: []string{"--workers=3"}, env: []string{"DUEHOOK_WORKERS=many"}, want: "whole number"},
		{name: "float", args: []string{"--retry-jitter=NaN"}, want: "write a number"},
		{name: "size", args: []string{"--max-body=big"}, want: "write a size"},
		{name: "size range", args: []string{"--max-body=9MiB"}, want: "--max-body must be between"},
		{name: "duration", args: []string{"--timeout=soon"}, want: `--timeout: "soon": the value is not a duration such as`},
		{name: "negative duration", args: []string{"--retention=-1h"}, want: "--retention"},
		{name: "steps", args: []string{"--retry-steps=1s,x"}, want: `step 2, "x"`},
		{name: "no steps", args: []string{"--retry-steps="}, want: "step"},
		{name: "step range", args: []string{"--retry-steps=400d"}, want: "step 1"},
		{name: "jitter range", args: []string{"--retry-jitter=1.5"}, want: "--retry-jitter must be between 0 and 1"},
		{name: "level", args: []string{"--log-level=loud"}, want: "debug, info, warn or error"},
		{name: "format", args: []string{"--log-format=xml"}, want: "auto, text, json"},
		{name: "cidr", args: []string{"--allow-cidrs=10.0.0.1"}, want: `"10.0.0.1" is not an address range`},
		{name: "cidr with host bits", args: []string{"--allow-cidrs=10.0.0.1/8"}, want: "write 10.0.0.0/8"},
		{name: "addr", args: []string{"--addr=localhost"}, want: "write host:port"},
		{name: "port", args: []string{"--addr=:http"}, want: "the port must be a number"},
		{name: "port range", args: []string{"--addr=:65536"}, want: "the port must be a number"},
		{name: "beyond loopback without keys", args: []string{"--addr=:7788"}, want: `--addr ":7788" can be reached from other machines, and there are no API keys`},
		{name: "signing secret", args: []string{"--signing-secret=hunter2"}, want: "--signing-secret: "},
		{name: "signing", args: []string{"--signing=no"}, want: "write one of on, off"},
		{name: "a secret that signs nothing", args: []string{"--signing=off", "--signing-secret=" + testSecret}, want: "--signing off uses neither"},
		{name: "a master key that seals nothing", args: []string{"--signing=off", "--master-key=" + testMasterKey}, want: "--signing off uses neither"},
		{name: "no directory for the master key", args: []string{"--data-dir=", "--redis-url=redis://h"}, want: "--data-dir is empty"},
		{name: "master key", args: []string{"--master-key=" + testMasterKey + ",hunter2"}, want: "--master-key: a master key must"},
		{name: "keys that are not wanted", args: []string{"--insecure-no-api-keys", "--api-keys=" + keyLine}, want: "contradict each other"},
		{name: "not yes or no", env: []string{"DUEHOOK_INSECURE_NO_API_KEYS=perhaps"}, want: `DUEHOOK_INSECURE_NO_API_KEYS: "perhaps": write true or false`},
		{name: "yes after a space", args: []string{"--insecure-no-api-keys", "true"}, want: `unexpected argument "true"`},
		{name: "key", args: []string{"--api-keys=hunter2"}, want: "--api-keys: key 1: field 1 is none of scope="},
		{name: "keys in a file", yaml: "api_keys: [" + keyLine + ", hunter2]", want: "c.yaml:1: api_keys: key 2: field 1"},
		{name: "no keys in their file", env: []string{"DUEHOOK_API_KEYS_FILE=" + dir + "/none"}, want: "DUEHOOK_API_KEYS_FILE: open"},
		{name: "empty keys", args: []string{"--api-keys="}, want: "--api-keys: contains no key"},
		{name: "empty file of keys", env: []string{"DUEHOOK_API_KEYS_FILE=/dev/null"}, want: "DUEHOOK_API_KEYS_FILE: contains no key"},
		{name: "empty list of keys", yaml: "api_keys: []", want: "api_keys: contains no key"},
		{name: "rate", args: []string{"--api-rate=fast"}, want: "--api-rate: \"fast\": must be requests/duration"},
		{name: "certificate without key", args: []string{"--tls-cert=c.pem"}, want: "--tls-cert and --tls-key belong together"},
		{name: "key without certificate", args: []string{"--tls-key=k.pem"}, want: "--tls-cert and --tls-key belong together"},
		{name: "shards", args: []string{"--shards=1025", "--redis-url=redis://h"}, want: "--shards must be between 1 and 1024"},
		{name: "no shards", args: []string{"--shards=0"}, want: "--shards must be between 1 and 1024"},
		{name: "too many replicas", args: []string{"--redis-min-replicas=6", "--redis-url=redis://h"}, want: "--redis-min-replicas must be between 0 and 5"},
		{name: "replicas without Redis", args: []string{"--redis-min-replicas=1"}, want: "--redis-min-replicas is for Redis"},
		{name: "no wait for replicas", args: []string{"--redis-replica-wait=0"}, want: "--redis-replica-wait must be between 1ms and 10s"},
		{name: "shards without Redis", args: []string{"--shards=2"}, want: "--shards is for Redis"},
		{name: "namespace", args: []string{"--namespace={x}"}, want: "--namespace"},
		{name: "data dir", args: []string{"--data-dir="}, want: "--data-dir is empty"},
		{name: "two stores", args: []string{"--redis-url=redis://h", "--postgres-url=postgres://h/d"}, want: "--redis-url and --postgres-url exclude each other"},
		{name: "postgres scheme", args: []string{"--postgres-url=mysql://h"}, want: "--postgres-url: write postgres://user:password@host:port/database"},
		{name: "a password that would be shown", args: []string{"--postgres-url=postgres://h/d?password=x"}, want: "write it before the host"},
		{name: "a pool in the URL", args: []string{"--postgres-url=postgres://h/d?pool_max_conns=9"}, want: "set --postgres-connections"},
		{name: "shards on PostgreSQL", args: []string{"--shards=2", "--postgres-url=postgres://h/d"}, want: "--shards is for Redis"},
		{name: "a direct URL alone", args: []string{"--postgres-direct-url=postgres://h/d"}, want: "--postgres-direct-url goes with --postgres-url"},
		{name: "an inbox without a name", args: []string{"--inbox-url=postgres://h/d"}, want: "--inbox-url: write name=value"},
		{name: "an inbox elsewhere", args: []string{"--inbox-url=a=redis://h"}, want: "--inbox-url a: write postgres://"},
		{name: "a password of an inbox that would be shown", args: []string{"--inbox-url=a=mysql://h/d?password=x"}, want: "write it before the host"},
		{name: "an inbox without a database", args: []string{"--inbox-url=a=mysql://h"}, want: "--inbox-url a: write mysql://user:password@host:port/database"},
		{name: "an inbox twice", args: []string{"--inbox-url=a=mysql://h/d,a=mysql://i/d"}, want: "--inbox-url names a twice"},
		{name: "topics of no inbox", args: []string{"--inbox-topics=a=t"}, want: "--inbox-topics names a"},
		{name: "topics of an inbox", args: []string{"--inbox-url=a=mysql://h/d", "--inbox-topics=a=*"}, want: "--inbox-topics a=*: the topic must not be * alone"},
		{name: "schema", args: []string{"--postgres-schema=Jobs"}, want: "--postgres-schema: the schema \"Jobs\" must begin with"},
		{name: "redis scheme", args: []string{"--redis-url=http://h"}, want: "--redis-url"},
		{name: "lease", args: []string{"--lease=12s"}, want: "--lease 12s is too short: it must outlast --timeout (15s) by 5s at least"},
		{name: "lease zero", args: []string{"--lease=0"}, want: "--lease 0s is too short"},
		{name: "lease long", args: []string{"--lease=2d"}, want: "--lease must be 1d at most"},
		{name: "timeout over the most", args: []string{"--timeout=2m"}, want: "--timeout must be between 100ms and --max-timeout (1m)"},
		{name: "max timeout", args: []string{"--max-timeout=1h"}, want: "--max-timeout must be between 1s and 10m"},
		{name: "visibility", args: []string{"--visibility=10ms"}, want: "--visibility must be"},
		{name: "workers", args: []string{"--workers=0"}, want: "--workers must be"},
		{name: "endpoint concurrency", args: []string{"--endpoint-concurrency=0"}, want: "--endpoint-concurrency must be"},
		{name: "topic without a limit", args: []string{"--topic-concurrency=a"}, want: `"a" is not topic=n`},
		{name: "no topic", args: []string{"--topic-concurrency=/=3"}, want: "may contain letters"},
		{name: "topic limit", args: []string{"--topic-concurrency=a=0"}, want: "the limit must be a number between 1 and 1000000"},
		{name: "topic limit of a word", args: []string{"--topic-concurrency=a=x"}, want: "the limit must be a number"},
		{name: "topic twice", args: []string{"--topic-concurrency=a=1,a=2"}, want: `topic "a" is listed twice`},
		{name: "catch-up rate", args: []string{"--catch-up-rate=-1"}, want: "--catch-up-rate must be"},
		{name: "ready cap", args: []string{"--ready-cap=0"}, want: "--ready-cap must be"},
		{name: "breaker failures", args: []string{"--breaker-failures=-1"}, want: "--breaker-failures must be"},
		{name: "breaker open", args: []string{"--breaker-open=0"}, want: "--breaker-open must be"},
		{name: "drain delay", args: []string{"--drain-delay=2h"}, want: "--drain-delay must be"},
		{name: "no grace", args: []string{"--grace=0"}, want: "--grace must be"},
		{name: "grace", args: []string{"--grace=2h"}, want: "--grace must be"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := tc.args
			if tc.yaml != "" {
				args = append(args, "--config", write(t, "c.yaml", tc.yaml))
			}
			_, err := Load(args, tc.env)
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Fatalf("got %v, want a *UsageError", err)
			}
			if !strings.Contains(usage.Message, tc.want) {
				t.Errorf("message %q lacks %q", usage.Message, tc.want)
			}
		})
	}
}

func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	_, err := Load([]string{"--workers=many"}, []string{"DUEHOOK_SHARDS=x", "DUEHOOK_FOO_BAR=1"})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three lines, got: %v", err)
	}
}

func TestHelpFlag(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		if _, err := Load([]string{arg}, nil); !errors.Is(err, ErrHelp) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestDerived(t *testing.T) {
	c := load(t, []string{"--timeout=20s", "--data-dir=/var/lib/duehook"}, nil)
	if c.Lease != 30*time.Second || c.LeaseMargin() != 10*time.Second {
		t.Errorf("lease %v, margin %v", c.Lease, c.LeaseMargin())
	}
}

func TestAPIKeys(t *testing.T) {
	other := strings.Replace(keyLine, keyID, "bcdefgh2", 1)
	path := write(t, "keys", "# made in January\n"+keyLine+"\n\n"+other+"\n")
	c := load(t, []string{"--addr=0.0.0.0:7788"}, []string{"DUEHOOK_API_KEYS_FILE=" + path})
	if len(c.APIKeys) != 2 || c.APIKeys[1].ID != "bcdefgh2" || c.Open() {
		t.Errorf("got %v", c.APIKeys)
	}
	if c := load(t, []string{"--api-keys", keyLine, "--api-keys", other}, nil); len(c.APIKeys) != 2 {
		t.Errorf("the repeated flag gave %v", c.APIKeys)
	}
	if c := load(t, []string{"--config", write(t, "c.yaml", "api_keys:\n  - "+keyLine+"\n  - "+other)}, nil); len(c.APIKeys) != 2 {
		t.Errorf("the settings file gave %v", c.APIKeys)
	}
	if c := load(t, []string{"--addr=:7788", "--insecure-no-api-keys"}, nil); !c.Open() || !c.InsecureNoAPIKeys {
		t.Error("the flag alone does not mean yes")
	}
}

// Platforms name the port in PORT. It is open to others only if the API needs keys, or is meant to need none.
func TestPort(t *testing.T) {
	keys := "DUEHOOK_API_KEYS_FILE=" + write(t, "keys", keyLine)
	for _, c := range []struct {
		args, environ []string
		want          string
	}{
		{nil, []string{"PORT=8080"}, "127.0.0.1:8080"},
		{nil, []string{"PORT=8080", keys}, ":8080"},
		{[]string{"--insecure-no-api-keys"}, []string{"PORT=8080"}, ":8080"},
		{[]string{"--addr=127.0.0.1:1"}, []string{"PORT=8080"}, "127.0.0.1:1"},
		{nil, []string{"PORT=8080", "DUEHOOK_ADDR=127.0.0.1:2"}, "127.0.0.1:2"},
		{nil, []string{"PORT="}, "127.0.0.1:7788"},
	} {
		if got := load(t, c.args, c.environ).Addr; got != c.want {
			t.Errorf("%v %v: %s, not %s", c.args, c.environ, got, c.want)
		}
	}
	for _, wrong := range []string{"0", "65536", "http", "tcp://10.0.0.1:80"} {
		if _, err := Load(nil, []string{"PORT=" + wrong}); err == nil || !strings.Contains(err.Error(), "PORT") {
			t.Errorf("PORT=%s: %v", wrong, err)
		}
	}
}
