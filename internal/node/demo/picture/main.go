// Command picture runs the demo and writes what it prints as an animated picture of a terminal:
//
//	go run ./internal/node/demo/picture docs/images/demo.svg
//
// The picture moves by CSS only, so it needs no scripts and can stand in an <img>. Viewers who
// prefer reduced motion see its end.
package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/duehook/duehook/internal/node/demo"
)

func main() {
	if err := write(context.Background(), os.DirFS("testdata/demo"), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, jobs fs.FS, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: picture FILE")
	}
	svg, err := picture(ctx, jobs)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], svg, 0o644) //nolint:gosec // a document
}

// took is how long the demo ran, which differs.
var took = regexp.MustCompile(` \([0-9.]+m?s\)`)

// picture runs the demo and draws it.
func picture(ctx context.Context, jobs fs.FS) ([]byte, error) {
	var out bytes.Buffer
	if err := demo.Run(ctx, demo.Options{Jobs: jobs, Out: &out, Color: true}); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &out)
	}
	text := "$ duehook demo\n" + took.ReplaceAllString(out.String(), "")
	return draw(strings.Split(strings.TrimRight(text, "\n"), "\n")), nil
}

// The measures of the terminal, in pixels and seconds.
const (
	columns, rows  = 118, 26
	column, height = 7.3, 18.0
	margin         = 16.0
	storyLine      = 0.35 // how long a line stands before the next one
	otherLine      = 0.15
	hold           = 6.0 // the end stays
)

var (
	story  = regexp.MustCompile(`^  \x1b\[2m\d\d:`)
	escape = regexp.MustCompile(`\x1b\[(\d+)m`)
	styles = map[string]string{"1": "b", "2": "d", "31": "r", "32": "g", "33": "y"}
)

// draw places all lines below each other, and animates what moves: the lines scroll up, and a
// cover over those to come moves down.
func draw(lines []string) []byte {
	var at []float64 // when a line appears
	now := 0.0
	for _, line := range lines {
		at = append(at, now)
		if story.MatchString(line) {
			now += storyLine
		} else {
			now += otherLine
		}
	}
	total := now + hold
	var scroll, cover, text strings.Builder
	for i, line := range lines {
		percent := 100 * at[i] / total
		fmt.Fprintf(&scroll, "%.2f%%{transform:translateY(%.0fpx)}", percent, -height*float64(max(0, i+1-rows)))
		fmt.Fprintf(&cover, "%.2f%%{transform:translateY(%.0fpx)}", percent, height*float64(i+1))
		if line != "" {
			fmt.Fprintf(&text, "<text y=\"%.0f\">%s</text>\n", height*(float64(i)+0.75), styled(line))
		}
	}
	last := len(lines)
	w, h := columns*column+2*margin, rows*height+2*margin
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">
<title>duehook demo</title>
<style>
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d7dce2;white-space:pre}
.b{font-weight:700}.d{fill:#8a939e}.r{fill:#ff8f86}.g{fill:#7bd88f}.y{fill:#f0c674}
#lines{transform:translateY(%.0fpx);animation:scroll %.2fs step-end infinite}
#cover{transform:translateY(%.0fpx);animation:cover %.2fs step-end infinite}
@keyframes scroll{%s}
@keyframes cover{%s}
@media (prefers-reduced-motion:reduce){#lines,#cover{animation:none}}
</style>
<rect width="100%%" height="100%%" rx="8" fill="#1b1f24"/>
<svg x="%.0f" y="%.0f" width="%.0f" height="%.0f">
<g id="lines">
%s<rect id="cover" width="100%%" height="%.0f" fill="#1b1f24"/>
</g>
</svg>
</svg>
`, w, h, w, h, -height*float64(max(0, last-rows)), total, height*float64(last), total, &scroll, &cover,
		margin, margin, w-2*margin, h-2*margin, &text, height*float64(last))
	return svg.Bytes()
}

// styled turns the escape sequences of a terminal into spans.
func styled(line string) string {
	var b strings.Builder
	at, open := 0, false
	for _, m := range escape.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(html.EscapeString(line[at:m[0]]))
		at = m[1]
		if open {
			b.WriteString("</tspan>")
		}
		class, ok := styles[line[m[2]:m[3]]]
		if open = ok; open {
			b.WriteString(`<tspan class="` + class + `">`)
		}
	}
	b.WriteString(html.EscapeString(line[at:]))
	if open {
		b.WriteString("</tspan>")
	}
	return b.String()
}
