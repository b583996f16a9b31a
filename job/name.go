package job

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckName checks a topic, an id, a biz_key or an order_key. A name is 1 to MaxName bytes of
// UTF-8: letters and digits of any script and . _ : @ -. It is neither "." nor "..",
// which clients and proxies remove from paths. Names are parts of keys in stores and
// of paths, so they contain no separators of either. They are compared byte by byte.
// Marks, such as vowel signs, belong to the letter before, so no name begins with one.
func CheckName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > MaxName:
		return errNameTooLong(MaxName)
	case s == "." || s == "..":
		return errors.New(`must not be "." or ".."`)
	case strings.ContainsFunc(s, notNameRune):
		return errors.New("may contain letters, digits and . _ : @ - only")
	case beginsWithMark(s):
		return errors.New("must not begin with a combining mark")
	}
	return nil
}

func errNameTooLong(most int) error { return fmt.Errorf("must have at most %d bytes in UTF-8", most) }

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
	// Invalid UTF-8 is none of these.
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}
