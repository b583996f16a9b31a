package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/<pid>/stat: Linux shows them in hundredths
// of a second to programs, whatever it counts in.
const tick = 10 * time.Millisecond

// CPUTime is the processor time that a process and its children have used,
// living or waited for. It is read from /proc.
func CPUTime(pid int) (time.Duration, error) {
	own, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	total := own.self + own.waitedFor
	others, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range others {
		other, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		child, err := readStat(other)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !gone(err) {
			return 0, err
		}
		if err == nil && child.parent == pid {
			total += child.self + child.waitedFor
		}
	}
	return total, nil
}

// gone reports whether a process ended while it was looked at.
func gone(err error) bool { return strings.Contains(err.Error(), "no such process") }

// stat has the used fields of /proc/<pid>/stat.
type stat struct {
	parent          int
	self, waitedFor time.Duration
}

func readStat(pid int) (stat, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(content))
}

// parseStat reads the fields that proc(5) numbers 4 and 14 to 17. The name
// before them stands in parentheses and may hold anything.
func parseStat(line string) (stat, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("%q is no line of /proc/<pid>/stat", line)
	}
	var numbers [5]int
	for i, at := range []int{1, 11, 12, 13, 14} {
		n, err := strconv.Atoi(fields[at])
		if err != nil {
			return stat{}, err
		}
		numbers[i] = n
	}
	ticks := func(a, b int) time.Duration { return time.Duration(a+b) * tick }
	return stat{parent: numbers[0], self: ticks(numbers[1], numbers[2]), waitedFor: ticks(numbers[3], numbers[4])}, nil
}
