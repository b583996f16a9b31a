package job

import (
	"encoding/hex"
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
// Invisible letters and marks would make two names look the same. Persian and other
// languages write a zero-width non-joiner inside words.
func CheckName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > MaxName:
		return errNameTooLong(MaxName)
	case s == "." || s == "..":
		return errors.New(`must not be "." or ".."`)
	}
	before := ' '
	for i, r := range s {
		if r >= utf8.RuneSelf || notNameRune(r) {
			if err := checkNameRune(before, r, s[i:]); err != nil {
				return err
			}
		}
		before = r
	}
	return nil
}

func errNameTooLong(most int) error { return fmt.Errorf("must have at most %d bytes in UTF-8", most) }

// nonJoiner is U+200C, which keeps the letters beside it apart.
const nonJoiner = '\u200c'

// checkNameRune checks the first character of rest, a part of a name.
func checkNameRune(before, r rune, rest string) error {
	switch {
	case r == nonJoiner:
		next, _ := utf8.DecodeRuneInString(rest[len(string(nonJoiner)):])
		if !unicode.In(before, unicode.Letter, unicode.Mark) || !unicode.IsLetter(next) {
			return errors.New("may contain a zero-width non-joiner (U+200C) between letters only")
		}
	case notNameRune(r):
		return errors.New("may contain letters, digits and . _ : @ - only")
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return fmt.Errorf("must not contain invisible characters such as %U", r)
	case before == ' ' && unicode.IsMark(r):
		return errors.New("must not begin with a combining mark")
	}
	return nil
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

// EscapeName makes names of dialects, which may contain more, valid names, unless they are too long.
// Letters and digits of ASCII and . _ @ - stay; other bytes are written in hexadecimal digits after a colon.
func EscapeName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isAlphanumeric(c) || strings.IndexByte("._@-", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString(":" + hex.EncodeToString([]byte{c}))
		}
	}
	return b.String()
}

// UnescapeName is the reverse of EscapeName; false for other names.
func UnescapeName(name string) (s string, ok bool) {
	var b strings.Builder
	for {
		plain, escaped, more := strings.Cut(name, ":")
		b.WriteString(plain)
		if !more {
			return b.String(), true
		}
		c, err := hex.DecodeString(escaped[:min(len(escaped), 2)])
		if err != nil || len(c) == 0 {
			return "", false
		}
		b.WriteByte(c[0])
		name = escaped[2:]
	}
}

// escapedMark begins names that NameOf made of other texts.
const escapedMark = ":"

// NameOf is the name for a text of another system: the text itself if it is a name, otherwise a colon
// and the escaped text. No other text has the same name. It may be too long for a name.
func NameOf(text string) string {
	if text == "" || CheckName(text) == nil && !strings.HasPrefix(text, escapedMark) {
		return text
	}
	return escapedMark + EscapeName(text)
}

// TextOfName is the reverse of NameOf. Other names stay as they are.
func TextOfName(name string) string {
	if escaped, ok := strings.CutPrefix(name, escapedMark); ok {
		if text, ok := UnescapeName(escaped); ok {
			return text
		}
	}
	return name
}
