package job

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckName says what is wrong with a topic, an id or a biz_key. A name is 1
// to MaxName bytes of A-Z a-z 0-9 . _ : @ - and is neither "." nor "..", which
// clients and proxies take out of paths. Names are used in keys of stores and in
// paths of the API, so they hold none of their separators.
func CheckName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > MaxName:
		return fmt.Errorf("must have at most %d characters", MaxName)
	case s == "." || s == "..":
		return errors.New(`must not be "." or ".."`)
	case strings.ContainsFunc(s, notNameRune):
		return errors.New("may contain A-Z a-z 0-9 . _ : @ - only")
	}
	return nil
}

func notNameRune(r rune) bool {
	switch r {
	case '.', '_', ':', '@', '-':
		return false
	}
	return r >= utf8.RuneSelf || !isAlphanumeric(byte(r))
}
