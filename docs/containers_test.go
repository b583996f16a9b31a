package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// ignored reports whether .dockerignore keeps a file out of the build. It knows
// only patterns that mean the same to every version of Docker.
func ignored(patterns []string, file string) bool {
	for _, p := range patterns {
		rest, anywhere := strings.CutPrefix(p, "**/")
		for part := file; part != "."; part = path.Dir(part) {
			name := part
			if anywhere {
				name = path.Base(part)
			}
			if ok, _ := path.Match(rest, name); ok {
				return true
			}
		}
	}
	return false
}

func dockerignore(t *testing.T) []string {
	t.Helper()
	var patterns []string
	for line := range strings.Lines(read(t, ".dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	return patterns
}

func TestDockerignoreMeansTheSameEverywhere(t *testing.T) {
	for _, p := range dockerignore(t) {
		rest := strings.TrimPrefix(p, "**/")
		if strings.HasPrefix(p, "!") || strings.Contains(rest, "/") || strings.Contains(rest, "**") {
			t.Errorf("%q: write a name or pattern of the top folder, or **/ and one", p)
		}
		if _, err := path.Match(rest, ""); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// sources are the files that `go build` reads, from the root.
func sources(t *testing.T) []string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module,GoFiles,EmbedFiles", ".")
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"go.mod", "go.sum"}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p struct {
			Dir                 string
			Module              *struct{ Main bool }
			GoFiles, EmbedFiles []string
		}
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir, err := filepath.Rel(top, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range slices.Concat(p.GoFiles, p.EmbedFiles) {
			names = append(names, path.Join(filepath.ToSlash(dir), f))
		}
	}
	return names
}

func TestDockerignoreLeavesWhatIsBuilt(t *testing.T) {
	patterns, names := dockerignore(t), sources(t)
	for _, name := range names {
		if ignored(patterns, name) {
			t.Errorf("the build needs %s", name)
		}
	}
	for _, suffix := range []string{".go", ".lua", ".json", ".yaml", ".js.gz", ".zst"} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, suffix) }) {
			t.Errorf("no %s among the sources: the list is wrong", suffix)
		}
	}
	for _, name := range []string{
		".git/HEAD", ".env", ".tools/bin/x", "internal/.env", "duehook-data/master.key", "node/duehook-data/master.key", "bin/duehook", "build/x",
		"web/node_modules/a/b.js", "e2e/x.go", "bench/go.mod", "job/job_test.go", "docs/api.md", "docker-compose.yml",
	} {
		if !ignored(patterns, name) {
			t.Errorf("%s is sent to the builder", name)
		}
	}
}

var (
	mounted   = regexp.MustCompile(`(?m)^RUN .*--mount|^# *syntax *=|<<`)
	fromStage = regexp.MustCompile(`(?m)^FROM (?:--platform=linux )?(\S+) AS (\S+)`)
	copied    = regexp.MustCompile(`(?m)^COPY (.+) \S+$`)
)

// The classic builder takes the Dockerfile, too, and what it copies is there.
func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	if found := mounted.FindString(text); found != "" {
		t.Errorf("%q needs BuildKit", found)
	}
	patterns, copies := dockerignore(t), 0
	for _, m := range copied.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "--") {
			continue
		}
		for name := range strings.FieldsSeq(m[1]) {
			copies++
			if _, err := os.Stat(filepath.Join(root, name)); err != nil || ignored(patterns, name) {
				t.Errorf("%s is not sent to the builder: %v", name, err)
			}
		}
	}
	if copies < 3 || fromStage.FindString(text) == "" {
		t.Errorf("%d files are copied: the pattern is wrong", copies)
	}
	_, version, _ := strings.Cut(read(t, "go.mod"), "\ngo ")
	version = strings.Join(strings.Split(strings.Fields(version)[0], ".")[:2], ".")
	if !strings.Contains(text, "golang:"+version+"-") {
		t.Errorf("go.mod asks for Go %s, the image has another", version)
	}
	// Docker kills after 10 seconds, and the store has to be closed before.
	grace, err := time.ParseDuration(envOf(text, "DUEHOOK_GRACE"))
	if err != nil || grace > 8*time.Second {
		t.Errorf("DUEHOOK_GRACE: %v, %v", grace, err)
	}
	for _, want := range []string{
		"ARG VERSION", "main.version=${VERSION}", "--chown=65532:65532", `CMD ["/usr/local/bin/duehook", "health"]`,
		"USER 65532:65532", "/etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
		"org.opencontainers.image.licenses=", "org.opencontainers.image.version=", "GOARCH=${TARGETARCH}",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// envOf is what a Dockerfile sets a variable to.
func envOf(dockerfile, name string) string {
	_, value, _ := strings.Cut(dockerfile, name+"=")
	value, _, _ = strings.Cut(value, "\n")
	value, _, _ = strings.Cut(value, " ")
	return value
}

type service struct {
	Build *struct {
		Context string
		Args    map[string]string
	}
	Image           string
	Command         []string
	Profiles        []string
	Restart         string
	Environment     map[string]*string // nil: passed on from .env
	Volumes         []string
	Ports           []string
	ExtraHosts      []string `yaml:"extra_hosts"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	Logging         struct{ Options map[string]string }
	DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
	Deploy          struct {
		Resources struct{ Limits struct{ CPUs, Memory string } }
	}
	Healthcheck struct {
		Test        []string
		StartPeriod string `yaml:"start_period"`
		Disable     bool
	}
}

func TestCompose(t *testing.T) {
	text := read(t, "docker-compose.yml")
	var c struct {
		Services map[string]service
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`\$\{[^}]*\?`).FindString(text); m != "" {
		t.Errorf("%s…: docker compose ps and down fail without it", m)
	}
	nodes := 0
	for name, s := range c.Services {
		s.checkAny(t, name, c.Volumes)
		if s.Build == nil {
			continue
		}
		if name == "settings" { // ends before the nodes start, with what is wrong
			if strings.Join(s.Command, " ") != "config" || s.Restart != "no" || len(s.DependsOn) > 0 || !s.Healthcheck.Disable {
				t.Errorf("settings: %+v", s)
			}
			continue
		}
		nodes++
		s.checkNode(t, name)
	}
	if nodes < 2 {
		t.Errorf("%d nodes", nodes)
	}
	redis := c.Services["redis"]
	if got := strings.Join(redis.Healthcheck.Test, " "); got != "CMD redis-cli -e ping" || redis.Healthcheck.StartPeriod == "" {
		t.Errorf("redis: health is %q, after %q: a Redis that loads is not healthy", got, redis.Healthcheck.StartPeriod)
	}
	if !strings.Contains(strings.Join(redis.Command, " "), "--appendfsync always") {
		t.Errorf("redis: %v", redis.Command)
	}
	if !strings.Contains(read(t, ".gitignore"), "\n/.env\n") {
		t.Error(".env, with its keys, is not in .gitignore")
	}
	for _, profile := range []string{"proxy", "receiver", "inbox", "monitoring"} {
		used := false
		for _, s := range c.Services {
			used = used || slices.Contains(s.Profiles, profile)
		}
		if !used || !strings.Contains(read(t, "docs/docker.md"), "`"+profile+"`") {
			t.Errorf("no service has the profile %s, or docs/docker.md does not name it", profile)
		}
	}
}

// checkAny checks what holds for each service.
func (s *service) checkAny(t *testing.T, name string, volumes map[string]any) {
	t.Helper()
	if s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
		t.Errorf("%s: its log has no limit", name)
	}
	if limits := s.Deploy.Resources.Limits; limits.CPUs == "" || limits.Memory == "" {
		t.Errorf("%s: its resources have no limit", name)
	}
	for _, volume := range s.Volumes {
		source, _, _ := strings.Cut(volume, ":")
		if file, is := strings.CutPrefix(source, "./"); is {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil || !strings.HasSuffix(volume, ":ro") {
				t.Errorf("%s: %s: %v, or it can be written to", name, volume, err)
			}
		} else if !hasKey(volumes, source) {
			t.Errorf("%s: volume %s is not declared", name, source)
		}
	}
	for _, port := range s.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("%s: %s is open to the network", name, port)
		}
	}
}

func hasKey[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

func (s *service) checkNode(t *testing.T, name string) {
	t.Helper()
	if s.Build.Args["VERSION"] != "${VERSION:-}" {
		t.Errorf("%s: the version is %q", name, s.Build.Args["VERSION"])
	}
	// An image's volume that is not named here is a new one at each start.
	if len(s.Volumes) != 1 || !strings.HasSuffix(s.Volumes[0], ":/data") {
		t.Errorf("%s: volumes %v, want a named one at /data", name, s.Volumes)
	}
	for variable := range strings.FieldsSeq(strings.Join(settingsOf(t), " ")) {
		value, passed := s.Environment[variable]
		switch image := strings.Contains(read(t, "Dockerfile"), variable+"=") && value == nil && !passed; {
		case image: // the image sets it
		case !passed, value != nil && !strings.HasPrefix(*value, "${"+variable+":-"):
			t.Errorf("%s: .env does not set %s", name, variable)
		}
	}
	if got := strings.Join(s.Healthcheck.Test, " "); got != "CMD /usr/local/bin/duehook health" || s.DependsOn["settings"].Condition != "service_completed_successfully" {
		t.Errorf("%s: its health is %q, and it depends on %v", name, got, s.DependsOn)
	}
	grace, err := time.ParseDuration(fallback(s.Environment["DUEHOOK_GRACE"]))
	drain, errDrain := time.ParseDuration(fallback(s.Environment["DUEHOOK_DRAIN_DELAY"]))
	stop, errStop := time.ParseDuration(s.StopGracePeriod)
	if err != nil || errDrain != nil || errStop != nil || stop < grace+drain+10*time.Second {
		t.Errorf("%s: grace %v (%v), drained for %v (%v), killed after %v (%v)", name, grace, err, drain, errDrain, stop, errStop)
	}
	if !slices.Contains(s.ExtraHosts, "host.docker.internal:host-gateway") {
		t.Errorf("%s: receivers on the host have no name", name)
	}
	if !s.ReadOnly {
		t.Errorf("%s: its file system can be written to", name)
	}
}

// settingsOf are the variables of all settings.
func settingsOf(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)`").FindAllStringSubmatch(read(t, "docs/settings.md"), -1) {
		names = append(names, "DUEHOOK_"+strings.ToUpper(strings.ReplaceAll(m[1], "-", "_")))
	}
	if len(names) < 30 {
		t.Fatalf("%d settings in docs/settings.md: the pattern is wrong", len(names))
	}
	return names
}

// fallback is the value of ${NAME:-value}.
func fallback(text *string) string {
	if text == nil {
		return ""
	}
	_, value, _ := strings.Cut(strings.TrimSuffix(*text, "}"), ":-")
	return value
}
