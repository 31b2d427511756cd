package render

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// cellWidth keeps a row with a vector or a long text on one line of a terminal.
const cellWidth = 48

// Cell gives the i-th value of an array on one line of bounded length.
func Cell(a arrow.Array, i int) string {
	var s string
	switch a := a.(type) {
	case *array.Float32:
		if a.IsValid(i) {
			return Float(float64(a.Value(i)))
		}
		s = "null"
	case *array.String, *array.LargeString, *array.StringView:
		if a.IsNull(i) {
			s = "null"
		} else {
			s = text(a, i)
		}
	default:
		s = strings.Trim(string(AppendJSON(nil, a, i)), `"`)
	}
	return shorten(s)
}

// Float gives a float32's digits without those that it cannot hold.
func Float(f float64) string {
	return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', 6, 32), "+"))
}

func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= cellWidth {
		return s
	}
	return string([]rune(s)[:cellWidth-1]) + "…"
}

// Table is rows of cells, written in aligned columns.
type Table struct {
	Header []string
	Rows   [][]string
	// Left says which columns hold text, which is aligned to the left; numbers are aligned to the right.
	Left []bool
}

// WriteTo writes the header and the rows.
func (t Table) WriteTo(w io.Writer) (int64, error) {
	widths := make([]int, len(t.Header))
	all := append([][]string{t.Header}, t.Rows...)
	for _, row := range all {
		for c, cell := range row {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		var line strings.Builder
		for c, cell := range row {
			if c > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
			if c < len(t.Left) && t.Left[c] {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// IsText reports whether a column's cells are aligned to the left.
func IsText(t arrow.DataType) bool {
	return !arrow.IsInteger(t.ID()) && !arrow.IsFloating(t.ID()) && !arrow.IsDecimal(t.ID())
}
