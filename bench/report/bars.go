package report

import (
	"fmt"
	"strings"
)

// Bars is a chart of figures to compare: a bar for each median, with a line
// over it for the range.
type Bars struct {
	Title string
	Unit  string
	Bars  []Bar
}

// Bar is one figure. Own marks what the eye is to look for.
type Bar struct {
	Label            string
	Value, Low, High float64
	Text             string // the figure as it is written beside the bar
	Own              bool
}

// The measures of a chart of bars, in pixels.
const (
	barsWidth  = 720
	labelWidth = 190
	textWidth  = 170
	barHeight  = 22
	barGap     = 10
	titleSpace = 44
)

// SVG is the chart as a picture.
func (c *Bars) SVG() string {
	height := titleSpace + len(c.Bars)*(barHeight+barGap)
	p := newPicture(barsWidth, height)
	p.text(0, 18, "title", "start", c.Title)
	p.text(barsWidth, 18, "note", "end", c.Unit)
	scale := float64(barsWidth-labelWidth-textWidth) / nonZero(c.largest())
	for i, bar := range c.Bars {
		top := float64(titleSpace + i*(barHeight+barGap) - barGap/2)
		middle := top + barHeight/2
		class := "other"
		if bar.Own {
			class = "own"
		}
		p.text(labelWidth-10, middle+5, "label", "end", bar.Label)
		p.rect(labelWidth, top, bar.Value*scale, barHeight, class)
		if bar.Low < bar.High {
			p.line(labelWidth+bar.Low*scale, middle, labelWidth+bar.High*scale, middle, "range")
		}
		p.text(labelWidth+max(bar.Value, bar.High)*scale+8, middle+5, "label", "start", bar.Text)
	}
	return p.done()
}

func (c *Bars) largest() float64 {
	var most float64
	for _, b := range c.Bars {
		most = max(most, b.Value, b.High)
	}
	return most
}

func nonZero(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

// picture is an SVG that is being written.
type picture struct{ b strings.Builder }

// style suits light and dark pages.
const style = `<style>
text{font-family:system-ui,sans-serif;font-size:13px;fill:#24292f}
.title{font-size:15px;font-weight:600}.note{fill:#6e7781}
.own{fill:#0a7e5a}.other{fill:#afb8c1}.range{stroke:#24292f;stroke-width:1.5}
.axis{stroke:#d0d7de;stroke-width:1}.curve{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.other{fill:#57606a}.range{stroke:#e6edf3}.axis{stroke:#30363d}}
</style>
`

func newPicture(width, height int) *picture {
	p := &picture{}
	fmt.Fprintf(&p.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`+"\n%s",
		width, height, width, height, style)
	return p
}

func (p *picture) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(&p.b, `<text x="%.0f" y="%.0f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, escape(text))
}

func (p *picture) rect(x, y, width, height float64, class string) {
	fmt.Fprintf(&p.b, `<rect x="%.0f" y="%.0f" width="%.1f" height="%.0f" rx="2" class="%s"/>`+"\n", x, y, width, height, class)
}

func (p *picture) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&p.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

func (p *picture) done() string { return p.b.String() + "</svg>\n" }

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;").Replace
