package job

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckName says what is wrong with a topic, an id or a biz_key. A name is 1
// to MaxName bytes of UTF-8: letters and digits of any script and . _ : @ -, and is
// neither "." nor "..", which clients and proxies take out of paths. Names are used
// in keys of stores and in paths of the API, so they hold none of their separators,
// and they are compared byte by byte. Marks, such as vowel signs, are parts of the
// letter before, so none begins a name.
func CheckName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > MaxName:
		return fmt.Errorf("must have at most %d bytes in UTF-8", MaxName)
	case s == "." || s == "..":
		return errors.New(`must not be "." or ".."`)
	case strings.ContainsFunc(s, notNameRune):
		return errors.New("may contain letters, digits and . _ : @ - only")
	case beginsWithMark(s):
		return errors.New("must not begin with a combining mark")
	}
	return nil
}

func beginsWithMark(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return unicode.IsMark(first)
}

func notNameRune(r rune) bool {
	switch r {
	case '.', '_', ':', '@', '-':
		return false
	}
	if r < utf8.RuneSelf {
		return !isAlphanumeric(byte(r))
	}
	// What is no UTF-8 is none of these.
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}
