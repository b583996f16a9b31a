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
	// A pseudo-version names a commit, which VersionDetails shows better.
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" && !strings.HasPrefix(info.Main.Version, "v0.0.0-") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return fallbackVersion
}

// VersionDetails is the version with the commit and the platform.
func VersionDetails(version string) string {
	details := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if commit := buildCommit(); commit != "" {
		details = append([]string{"commit " + commit}, details...)
	}
	return fmt.Sprintf("duehook %s (%s)", version, strings.Join(details, ", "))
}

func buildCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const shown = 12 // letters of a commit's name
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(shown, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + modified
}
