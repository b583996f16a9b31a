package job

import "strings"

// ValidTraceparent reports whether s is a traceparent of W3C Trace Context,
// level 1. Ignore an invalid one; never refuse it. Later versions may add fields
// after the known ones.
func ValidTraceparent(s string) bool {
	const size = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(s) < size || len(s) > 2*size {
		return false
	}
	known, more := s[:size], s[size:]
	version, trace, parent, flags := known[:2], known[3:35], known[36:52], known[53:]
	switch {
	case known[2] != '-' || known[35] != '-' || known[52] != '-':
		return false
	case version == "ff", version == "00" && more != "", more != "" && more[0] != '-':
		return false
	case strings.Trim(more, "0123456789abcdef-") != "":
		return false
	}
	return isHex(version) && isHex(trace) && isHex(parent) && isHex(flags) &&
		strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// maxTracestate is how long a tracestate may be, in bytes. Every party has to pass on 512.
const maxTracestate = 512

// TracestateOf returns the tracestate of the lines of a header: members "key=value", separated by commas. It is empty
// if one is malformed or all of them are too long.
func TracestateOf(lines []string) string {
	var members []string
	for member := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, ok := strings.Cut(member, "=")
		if !ok || key == "" || value == "" || strings.ContainsFunc(member, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Contains(value, "=") {
			return ""
		}
		members = append(members, member)
	}
	if state := strings.Join(members, ","); len(state) <= maxTracestate {
		return state
	}
	return ""
}
