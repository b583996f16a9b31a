// Package report writes results into documents, as tables and charts.
package report

import (
	"strings"
	"unicode/utf8"
)

// Table is a table of text. Its first column stands to the left, the others,
// which are figures, to the right.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Markdown is the table as GitHub's Markdown.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.Header)
	b.WriteString("|---|" + strings.Repeat("--:|", max(0, len(t.Header)-1)) + "\n")
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// Text is the table for a terminal, in columns.
func (t *Table) Text() string {
	widths := make([]int, len(t.Header))
	all := append([][]string{t.Header}, t.Rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("  " + cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
