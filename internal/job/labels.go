package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Label is a key and a value set by the client, for searching.
type Label struct {
	Key   string
	Value string
}

const labelKeyChars = "abcdefghijklmnopqrstuvwxyz0123456789_.-"

// ParseLabel reads a label of a query: "key:value". A key contains no colon, so
// it is unambiguous.
func ParseLabel(s string) (Label, error) {
	key, value, ok := strings.Cut(s, ":")
	if !ok {
		return Label{}, errors.New("must be written key:value")
	}
	return Label{key, value}, checkLabel(key, value)
}

// ParseLabels reads the labels of an object, sorted by key. Its errors name
// the members of the field.
func ParseLabels(field Field, given map[string]string) ([]Label, error) {
	var f Findings
	labels := f.labels(field, given)
	return labels, f.Err()
}

// labels reads labels, sorted by key, so that equal content is encoded equally.
func (f *Findings) labels(field Field, given map[string]string) []Label {
	if len(given) > MaxLabels {
		f.Add(field, fmt.Sprintf("must have at most %d labels", MaxLabels))
		return nil
	}
	var list []Label
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if err := checkLabel(key, given[key]); err != nil {
			f.Add(member(field, key, MaxLabelKey), err.Error())
		}
		list = append(list, Label{key, given[key]})
	}
	return list
}

func checkLabel(key, value string) error {
	switch {
	case key == "" || len(key) > MaxLabelKey:
		return fmt.Errorf("must have a key of 1 to %d characters", MaxLabelKey)
	case strings.ContainsFunc(key, notLabelKeyRune):
		return errors.New("must have a key of a-z 0-9 _ . - only")
	}
	return CheckText(value, 0, MaxLabelValue)
}

// CheckText checks a short text that is shown to people: it has least to most characters,
// none of them a control character or one that reorders the text around it on a screen.
func CheckText(s string, least, most int) error {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		return errors.New("must be valid UTF-8")
	case n < least:
		return errors.New("must not be empty; leave it out for none")
	case n > most:
		return fmt.Errorf("must have at most %d characters", most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("must not contain control characters")
	case strings.ContainsFunc(s, reorders):
		return errors.New("must not contain characters that change the direction of text, U+202A to U+202E and U+2066 to U+2069")
	}
	return nil
}

// reorders: the character embeds, isolates or overrides a direction of writing.
func reorders(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }

func notLabelKeyRune(r rune) bool { return !strings.ContainsRune(labelKeyChars, r) }

// HasLabels reports whether all of labels are among those of the job.
func (s *Spec) HasLabels(labels []Label) bool {
	for _, l := range labels {
		if !slices.Contains(s.Labels, l) {
			return false
		}
	}
	return true
}
