package report

import (
	"fmt"
	"math"
)

// Curves is a chart of how figures change with a size. Sizes stand at equal
// distances, as steps of a power of ten do.
type Curves struct {
	Title string
	Unit  string
	Sizes []string
	Lines []Curve
}

// Curve has a value for each size; NaN is none.
type Curve struct {
	Label  string
	Values []float64
}

// The measures of a chart of curves, in pixels.
const (
	curvesWidth  = 720
	curvesHeight = 300
	plotLeft     = 70
	plotRight    = 540
	plotTop      = 44
	plotBottom   = 260
	gridLines    = 4
)

var curveColors = []string{"#0a7e5a", "#8250df", "#bf8700", "#0969da", "#cf222e"}

// SVG is the chart as a picture.
func (c *Curves) SVG() string {
	p := newPicture(curvesWidth, curvesHeight)
	p.text(0, 18, "title", "start", c.Title)
	p.text(curvesWidth, 18, "note", "end", c.Unit)
	most := roundUp(c.largest())
	y := func(v float64) float64 { return plotBottom - v/most*(plotBottom-plotTop) }
	for i := range gridLines + 1 {
		v := most * float64(i) / gridLines
		p.line(plotLeft, y(v), plotRight, y(v), "axis")
		p.text(plotLeft-8, y(v)+4, "note", "end", fmt.Sprintf("%.4g", v))
	}
	x := func(i int) float64 {
		return plotLeft + (plotRight-plotLeft)*(float64(i)+0.5)/float64(max(1, len(c.Sizes)))
	}
	for i, size := range c.Sizes {
		p.text(x(i), plotBottom+22, "note", "middle", size)
	}
	for i, line := range c.Lines {
		p.curve(line, curveColors[i%len(curveColors)], x, y)
	}
	return p.done()
}

// curve draws a line through the points, and its name at its end.
func (p *picture) curve(c Curve, color string, x func(int) float64, y func(float64) float64) {
	var points string
	last := -1
	for i, v := range c.Values {
		if math.IsNaN(v) {
			continue
		}
		points += fmt.Sprintf("%.1f,%.1f ", x(i), y(v))
		fmt.Fprintf(&p.b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(i), y(v), color)
		last = i
	}
	if last < 0 {
		return
	}
	fmt.Fprintf(&p.b, `<polyline points="%s" class="curve" stroke="%s"/>`+"\n", points, color)
	p.text(x(last)+10, y(c.Values[last])+4, "label", "start", c.Label)
}

func (c *Curves) largest() float64 {
	var most float64
	for _, l := range c.Lines {
		for _, v := range l.Values {
			if v > most { // false for NaN
				most = v
			}
		}
	}
	return most
}

// roundUp is the next number that looks well at the end of an axis.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 6, 8} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}
