package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// made reports when and on which machine figures were measured.
func (r *runner) made(ctx context.Context) string {
	return fmt.Sprintf("<sub>%s, commit %s, %d rounds at most; %d × %s, %s, Redis %s with appendfsync %s.</sub>",
		r.clock.Now().UTC().Format("2 January 2006"), commit(ctx), r.Size.Rounds,
		runtime.NumCPU(), processor(), runtime.Version(), redisVersion(ctx), r.Persistence)
}

func commit(ctx context.Context) string {
	return output(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*")
}

var version = regexp.MustCompile(`v=([0-9.]+)`)

func redisVersion(ctx context.Context) string {
	if m := version.FindStringSubmatch(output(ctx, "redis-server", "--version")); m != nil {
		return m[1]
	}
	return "of unknown version"
}

// output is what a program prints; the figures stand without it.
func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // programs named here
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

var model = regexp.MustCompile(`(?m)^model name\s*: (.+)$`)

func processor() string {
	info, err := os.ReadFile(filepath.Join("/proc", "cpuinfo"))
	if m := model.FindSubmatch(info); err == nil && m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}
