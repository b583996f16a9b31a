package node

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// fallbackVersion is the version of a build that knows no other.
const fallbackVersion = "0.1.0-dev"

// Version is the version of this build: stamped, when the linker set one,
// else that of the module as installed with go install.
func Version(stamped string) string {
	if stamped != "" {
		return strings.TrimPrefix(stamped, "v")
	}
	info, ok := debug.ReadBuildInfo()
	// A pseudo-version names a commit, which Build shows better.
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" && !strings.HasPrefix(info.Main.Version, "v0.0.0-") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return fallbackVersion
}

// Build is what is known of a build, in the JSON of duehook version.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // since the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildOf is this build, with its version.
func BuildOf(version string) Build {
	b := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b Build) String() string {
	details := []string{b.Go, b.Platform}
	if b.Commit != "" {
		commit := "commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			commit += " with changes"
		}
		details = append([]string{commit}, details...)
	}
	return fmt.Sprintf("duehook %s (%s)", b.Version, strings.Join(details, ", "))
}
