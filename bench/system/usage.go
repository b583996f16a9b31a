package system

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Resident is how much memory of a process is in RAM, in bytes.
func Resident(pid int) (int, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%q is no line of /proc/<pid>/statm", content)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}
