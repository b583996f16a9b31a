package httpapi

// quickJSON reports whether data is one JSON text of at most maxNesting levels,
// in a single pass and several times as fast as encoding/json, which finds out
// what is wrong when it is not. It does not look whether strings are UTF-8.
func quickJSON(data []byte) bool {
	end := quickValue(data, skipSpace(data, 0), 0)
	return end >= 0 && skipSpace(data, end) == len(data)
}

// quickValue is the index after the value that starts at data[i], negative when
// none does. It calls itself no deeper than maxNesting.
func quickValue(data []byte, i, depth int) int {
	if i >= len(data) {
		return -1
	}
	switch c := data[i]; c {
	case '"':
		return quickString(data, i+1)
	case '{', '[':
		if depth == maxNesting {
			return -1
		}
		return quickList(data, i+1, depth+1, c == '{')
	case 't':
		return quickWord(data, i, "true")
	case 'f':
		return quickWord(data, i, "false")
	case 'n':
		return quickWord(data, i, "null")
	}
	return quickNumber(data, i)
}

// quickList is the index after the object or array whose items begin at data[i].
func quickList(data []byte, i, depth int, object bool) int {
	closing := byte(']')
	if object {
		closing = '}'
	}
	if i = skipSpace(data, i); i < len(data) && data[i] == closing {
		return i + 1
	}
	for {
		if object {
			if i = quickName(data, i); i < 0 {
				return -1
			}
		}
		if i = quickValue(data, skipSpace(data, i), depth); i < 0 {
			return -1
		}
		i = skipSpace(data, i)
		switch {
		case i >= len(data):
			return -1
		case data[i] == closing:
			return i + 1
		case data[i] != ',':
			return -1
		}
		i = skipSpace(data, i+1)
	}
}

// quickName is the index after a member's name and its colon.
func quickName(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	if i = quickString(data, i+1); i < 0 {
		return -1
	}
	if i = skipSpace(data, i); i >= len(data) || data[i] != ':' {
		return -1
	}
	return i + 1
}

// quickString is the index after the string whose first quote is before data[i].
func quickString(data []byte, i int) int {
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i = quickEscape(data, i+1); i < 0 {
				return -1
			}
		default:
			i++
		}
	}
	return -1
}

// quickEscape is the index after the escape whose backslash is before data[i].
func quickEscape(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 > len(data) {
			return -1
		}
		for _, c := range data[i+1 : i+5] {
			if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func quickWord(data []byte, i int, word string) int {
	if len(data)-i < len(word) || string(data[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// quickNumber is the index after the number that starts at data[i].
func quickNumber(data []byte, i int) int {
	if data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' { // no digit may follow it
		i++
	} else if i = quickDigits(data, i); i < 0 {
		return -1
	}
	if i < len(data) && data[i] == '.' {
		if i = quickDigits(data, i+1); i < 0 {
			return -1
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		return quickDigits(data, i)
	}
	return i
}

// quickDigits is the index after the digits at data[i], of which there must be one.
func quickDigits(data []byte, i int) int {
	start := i
	for i < len(data) && isDigit(data[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
