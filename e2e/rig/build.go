package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build builds duehook as dir/name, with further flags of go build.
func Build(dir, name string, flags ...string) (path string, err error) {
	path = filepath.Join(dir, name)
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, ".")...)
	cmd.Dir = root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// root is the directory of the module, two above this file.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
