package vecfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/half"
)

// ParseArrow reads the only list column of an Arrow IPC file or stream: a row per vector, or per multivector if the
// column is a list of lists.
func ParseArrow(data []byte) (m Matrix, err error) {
	// arrow/go v17 panics on some damaged files.
	defer func() {
		if p := recover(); p != nil {
			m, err = Matrix{}, fmt.Errorf("damaged Arrow data: %v", p)
		}
	}()
	r, err := newRecordReader(data)
	if err != nil {
		return Matrix{}, err
	}
	defer r.close()
	column, err := listColumn(r.schema)
	if err != nil {
		return Matrix{}, err
	}
	b := arrowBuilder{}
	for rows := 0; ; {
		rec, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Matrix{}, fmt.Errorf("damaged Arrow data: %w", eof(err))
		}
		list := rec.Column(column).(array.ListLike)
		for i := range list.Len() {
			if err := b.row(list, i); err != nil {
				return Matrix{}, fmt.Errorf("row %d of column %q: %w", rows+i, r.schema.Field(column).Name, err)
			}
		}
		rows += list.Len()
	}
	b.shape[0] = b.rows
	return newMatrix(b.data, b.shape[:b.depth()]...)
}

type recordReader struct {
	schema *arrow.Schema
	next   func() (arrow.Record, error)
	close  func()
}

func newRecordReader(data []byte) (recordReader, error) {
	if hasPrefix(data, "ARROW1") {
		f, err := ipc.NewFileReader(bytes.NewReader(data))
		if err != nil {
			return recordReader{}, fmt.Errorf("not an Arrow IPC file: %w", eof(err))
		}
		return recordReader{schema: f.Schema(), next: f.Read, close: func() { _ = f.Close() }}, nil
	}
	s, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		return recordReader{}, fmt.Errorf("neither an Arrow IPC file nor a stream: %w", eof(err))
	}
	return recordReader{schema: s.Schema(), next: s.Read, close: s.Release}, nil
}

func listColumn(schema *arrow.Schema) (int, error) {
	var found []int
	var names []string
	for i, f := range schema.Fields() {
		if _, ok := f.Type.(arrow.ListLikeType); ok && f.Type.ID() != arrow.MAP {
			found = append(found, i)
			names = append(names, f.Name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, errors.New("no column is a list of numbers: vectors must be a list or fixed-size list")
	default:
		return 0, fmt.Errorf("several columns are lists (%s): keep only the vectors", strings.Join(names, ", "))
	}
}

type arrowBuilder struct {
	data []float64
	rows int
	// shape is [rows, dim] or [rows, vectors per row, dim]; 0 until the first row fixes a length.
	shape  [3]int
	nested bool
}

func (b *arrowBuilder) depth() int {
	if b.nested {
		return 3
	}
	return 2
}

func (b *arrowBuilder) row(list array.ListLike, i int) error {
	b.rows++
	values, from, to, err := span(list, i)
	if err != nil {
		return err
	}
	inner, ok := values.(array.ListLike)
	if !ok {
		return b.vector(values, from, to, 1)
	}
	b.nested = true
	if b.shape[1] == 0 {
		b.shape[1] = to - from
	}
	if to-from != b.shape[1] {
		return fmt.Errorf("%d vectors where earlier rows have %d", to-from, b.shape[1])
	}
	for j := from; j < to; j++ {
		values, from, to, err := span(inner, j)
		if err != nil {
			return err
		}
		if err := b.vector(values, from, to, 2); err != nil {
			return err
		}
	}
	return nil
}

func span(list array.ListLike, i int) (values arrow.Array, from, to int, err error) {
	if list.IsNull(i) {
		return nil, 0, 0, errors.New("null: a query vector is needed")
	}
	start, end := list.ValueOffsets(i)
	return list.ListValues(), int(start), int(end), nil
}

func (b *arrowBuilder) vector(values arrow.Array, from, to, axis int) error {
	if b.shape[axis] == 0 {
		b.shape[axis] = to - from
	}
	if to-from != b.shape[axis] || to == from {
		return fmt.Errorf("%d values where earlier vectors have %d", to-from, b.shape[axis])
	}
	var value func(int) float64
	switch v := values.(type) {
	case *array.Float16:
		value = func(i int) float64 { return half.Float64(v.Value(i).Uint16()) }
	case *array.Float32:
		value = func(i int) float64 { return float64(v.Value(i)) }
	case *array.Float64:
		value = v.Value
	case *array.Uint8:
		value = func(i int) float64 { return float64(v.Value(i)) }
	default:
		return fmt.Errorf("values of type %s are not supported: use float16, float32, float64 or uint8", values.DataType())
	}
	for i := from; i < to; i++ {
		if values.IsNull(i) {
			return fmt.Errorf("value %d is null", i-from)
		}
		b.data = append(b.data, value(i))
	}
	return nil
}
