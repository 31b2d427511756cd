package report

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// chart is a plot of lines over two axes.
type chart struct {
	Title, X, Y string
	LogX, LogY  bool
	// Recall puts the x axis on a scale that spreads out what lies close to 1.
	Recall bool
	Series []series
}

type series struct {
	Name   string
	Points [][2]float64
	Dashed bool
	Marks  bool // no line between the points
}

// colours are told apart by people who see colours differently, too.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"}

const (
	width, height            = 760, 420
	left, right, top, bottom = 70, 220, 40, 55
)

// axis maps values to pixels.
type axis struct {
	low, high float64 // transformed
	from, to  float64 // pixels
	transform func(float64) float64
	ticks     []float64
}

func (a axis) at(v float64) float64 {
	if a.high == a.low {
		return (a.from + a.to) / 2
	}
	return a.from + (a.transform(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

func identity(v float64) float64 { return v }

// nines spreads recall: 0.9, 0.99 and 0.999 are equally far apart. The offset keeps 1 on the axis.
func nines(v float64) float64 { return -math.Log10(1.0005 - math.Min(v, 1)) }

func newAxis(values []float64, from, to float64, log, recall bool) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	a := axis{from: from, to: to, transform: identity}
	switch {
	case recall:
		a.transform = nines
		for _, t := range []float64{0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 1} {
			if t >= low-0.1 {
				a.ticks = append(a.ticks, t)
			}
		}
		low, high = math.Min(low, a.ticks[0]), 1
	case log && whole(values):
		// Counts of things are read best at the counts that were measured.
		a.transform = math.Log10
		low, high = low/1.15, high*1.15
		a.ticks = slices.Compact(slices.Sorted(slices.Values(values)))
	case log:
		a.transform = math.Log10
		low, high = low/1.15, high*1.15
		for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if t := m * decade; t >= low && t <= high {
					a.ticks = append(a.ticks, t)
				}
			}
		}
	default:
		low = math.Min(0, low)
		step := math.Pow(10, math.Floor(math.Log10(math.Max(high-low, 1e-9))))
		for (high-low)/step < 4 {
			step /= 2
		}
		high = math.Ceil(high/step) * step
		for t := low; t <= high+step/2; t += step {
			a.ticks = append(a.ticks, t)
		}
	}
	a.low, a.high = a.transform(low), a.transform(high)
	return a
}

func whole(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != math.Trunc(v) })
}

// svg draws the chart. The colours suit light and dark pages alike, since the background is its own.
func (c chart) svg() []byte {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	if len(xs) == 0 {
		return nil
	}
	x := newAxis(xs, left, width-right, c.LogX, c.Recall)
	y := newAxis(ys, height-bottom, top, c.LogY, false)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	label := func(px, py float64, anchor, extra, text string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222"%s>%s</text>`+"\n", px, py, anchor, extra, html.EscapeString(text))
	}
	label(left, top-16, "start", ` font-size="14" font-weight="bold"`, c.Title)
	label((left+width-right)/2, height-14, "middle", "", c.X)
	label(18, (top+height-bottom)/2, "middle", fmt.Sprintf(` transform="rotate(-90 18 %d)"`, (top+height-bottom)/2), c.Y)
	for _, t := range x.ticks {
		px := x.at(t)
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#dddddd"/>`+"\n", px, px, top, height-bottom)
		label(px, height-bottom+16, "middle", "", fmt.Sprintf("%.4g", t))
	}
	for _, t := range y.ticks {
		py := y.at(t)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", left, width-right, py, py)
		label(left-6, py+4, "end", "", fmt.Sprintf("%.4g", t))
	}
	for i, s := range c.Series {
		colour, dash := colours[i%len(colours)], ""
		if s.Dashed {
			dash = ` stroke-dasharray="6 4"`
		}
		if !s.Marks {
			fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="`, colour, dash)
			for _, p := range s.Points {
				fmt.Fprintf(&b, "%.1f,%.1f ", x.at(p[0]), y.at(p[1]))
			}
			b.WriteString(`"/>` + "\n")
		}
		for _, p := range s.Points {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="%d" fill="%s"/>`+"\n", x.at(p[0]), y.at(p[1]), map[bool]int{false: 3, true: 6}[s.Marks], colour)
		}
		row := float64(top + 10 + 20*i)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="3"%s/>`+"\n", width-right+14, width-right+38, row, row, colour, dash)
		label(width-right+44, row+4, "start", "", s.Name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
