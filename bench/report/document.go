package report

import (
	"fmt"
	"os"
	"strings"
)

// Put replaces what stands in the document at path between the markers of the
// part that is called name:
//
//	<!-- bench name: begin -->
//	<!-- bench name: end -->
func Put(path, name, text string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replaced, err := replace(string(content), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o644) //nolint:gosec // a document is for everybody
}

func replace(document, name, text string) (string, error) {
	begin, end := "<!-- bench "+name+": begin -->\n", "<!-- bench "+name+": end -->"
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("there is no place for %q", name)
	}
	return before + begin + text + end + after, nil
}
