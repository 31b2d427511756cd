package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/render"
	"github.com/lanceknn/lanceknn/distributed"
)

// answer is what a search found, as far as it is shown.
type answer struct {
	version               uint64
	index                 string // empty: no index was used
	why                   string // that index, or none although one was wanted
	strategy              string
	tasks                 int
	liveRows, coveredRows uint64
	queries               int
	record                arrow.Record // _query_id, _distance, _rowid, then columns; ordered by query
	elapsed               time.Duration
}

// newAnswer takes what is shown of a result, whose memory it shares.
func newAnswer(r *distributed.Result, elapsed time.Duration) answer {
	return answer{
		version: r.Stats.Version, index: r.Stats.Index, strategy: r.Stats.Strategy.String(), tasks: r.Stats.Tasks,
		liveRows: r.Stats.LiveRows, coveredRows: r.Stats.CoveredRows, queries: r.Len(), record: r.Record(), elapsed: elapsed,
	}
}

// Columns of a result that every search has.
const (
	queryColumn = iota
	distanceColumn
	rowIDColumn
	firstColumn
)

func (c console) show(format string, a answer) error {
	if a.index == "" && a.why != "" {
		fmt.Fprintf(c.err, "lanceknn: no index was used: %s\n", oneLine(a.why))
	}
	if a.coveredRows < a.liveRows {
		fmt.Fprintf(c.err, "lanceknn: searched %d of %d rows: the others are in no segment of the index\n", a.coveredRows, a.liveRows)
	}
	switch format {
	case "json":
		return a.writeJSON(c.out)
	case "arrow":
		return a.writeArrow(c.out)
	}
	if err := a.writeTable(c.out); err != nil {
		return err
	}
	if c.errTerminal {
		fmt.Fprintln(c.err, a.summary())
	}
	return nil
}

func (a answer) summary() string {
	index := "no index"
	if a.index != "" {
		index = "index " + a.index
	}
	return fmt.Sprintf("%s for %s in %s; version %d, %s, strategy %s, %s",
		plural(int(a.record.NumRows()), "row"), plural(a.queries, "query"), a.elapsed.Round(10*time.Microsecond), a.version, index, a.strategy, plural(a.tasks, "task"))
}

// writeJSON writes one object on one line. It is put together by hand, since neighbours have the record's columns in the
// record's order.
func (a answer) writeJSON(w io.Writer) error {
	out := bufio.NewWriter(w)
	b := append([]byte(nil), `{"version":`...)
	b = strconv.AppendUint(b, a.version, 10)
	b = append(b, `,"index":`...)
	if a.index == "" {
		b = append(b, "null"...)
	} else {
		b = render.AppendString(b, a.index)
	}
	b = append(b, `,"strategy":`...)
	b = render.AppendString(b, a.strategy)
	b = append(b, `,"tasks":`...)
	b = strconv.AppendInt(b, int64(a.tasks), 10)
	b = append(b, `,"coverage":{"live_rows":`...)
	b = strconv.AppendUint(b, a.liveRows, 10)
	b = append(b, `,"covered_rows":`...)
	b = strconv.AppendUint(b, a.coveredRows, 10)
	b = append(b, `},"queries":[`...)
	row := 0
	ids := a.record.Column(queryColumn).(*array.Int32)
	for q := range a.queries {
		if q > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"query_id":`...)
		b = strconv.AppendInt(b, int64(q), 10)
		b = append(b, `,"neighbors":[`...)
		for first := row; row < ids.Len() && int(ids.Value(row)) == q; row++ {
			if row > first {
				b = append(b, ',')
			}
			b = a.appendNeighbor(b, row)
		}
		b = append(b, `]}`...)
		if _, err := out.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	b = append(b, `],"elapsed_ms":`...)
	b = strconv.AppendFloat(b, float64(a.elapsed.Microseconds())/1000, 'f', -1, 64)
	b = append(b, "}\n"...)
	if _, err := out.Write(b); err != nil {
		return err
	}
	return out.Flush()
}

func (a answer) appendNeighbor(b []byte, row int) []byte {
	b = append(b, `{"_rowid":`...)
	b = render.AppendJSON(b, a.record.Column(rowIDColumn), row)
	b = append(b, `,"_distance":`...)
	b = render.AppendJSON(b, a.record.Column(distanceColumn), row)
	for c := firstColumn; c < int(a.record.NumCols()); c++ {
		b = append(b, ',')
		b = render.AppendString(b, a.record.ColumnName(c))
		b = append(b, ':')
		b = render.AppendJSON(b, a.record.Column(c), row)
	}
	return append(b, '}')
}

func (a answer) writeArrow(w io.Writer) error {
	stream := ipc.NewWriter(w, ipc.WithSchema(a.record.Schema()))
	if err := stream.Write(a.record); err != nil {
		return err
	}
	return stream.Close()
}

func (a answer) writeTable(w io.Writer) error {
	var t render.Table
	for _, f := range a.record.Schema().Fields() {
		t.Header = append(t.Header, f.Name)
		t.Left = append(t.Left, render.IsText(f.Type))
	}
	for row := range int(a.record.NumRows()) {
		cells := make([]string, a.record.NumCols())
		for c := range cells {
			cells[c] = render.Cell(a.record.Column(c), row)
		}
		t.Rows = append(t.Rows, cells)
	}
	_, err := t.WriteTo(w)
	return err
}
