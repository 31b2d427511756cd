package binding

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"
)

var writeSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "title", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "word", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
}, nil)

// faultyReader gives records, and fails or panics at one of them.
type faultyReader struct {
	array.RecordReader
	at    int
	fault func() error
	err   error
}

func (r *faultyReader) Next() bool {
	if r.at--; r.at < 0 {
		r.err = r.fault()
		return false
	}
	return r.RecordReader.Next()
}

func (r *faultyReader) Err() error { return r.err }

func records(t *testing.T, mem memory.Allocator, count, rows int) (array.RecordReader, []arrow.Record) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var all []arrow.Record
	for range count {
		b := array.NewRecordBuilder(mem, writeSchema)
		for i := range writeSchema.NumFields() {
			fill(b.Field(i), rows, random)
		}
		all = append(all, b.NewRecord())
		b.Release()
	}
	reader, err := array.NewRecordReader(writeSchema, all)
	require.NoError(t, err)
	t.Cleanup(func() {
		reader.Release()
		for _, r := range all {
			r.Release()
		}
	})
	return reader, all
}

func TestWrite_EverythingCrosses(t *testing.T) {
	f := newFake(t)
	for _, c := range []struct{ count, rows int }{{0, 0}, {1, 0}, {3, 100}, {2, 200_000}} {
		reader, all := records(t, memory.DefaultAllocator, c.count, c.rows)
		version, err := f.write(t.Context(), "mem://t", reader, WriteOptions{
			Mode: Overwrite, MaxRowsPerFile: 10, MaxRowsPerGroup: 5, StableRowIDs: true, DataStorageVersion: "2.1",
			StorageOptions: map[string]string{"a": "b"}, Namespace: &Namespace{Impl: "rest", TableID: []string{"t"}},
		})
		require.NoError(t, err)
		require.EqualValues(t, 9, version)
		require.EqualValues(t, 1, f.committed())
		require.JSONEq(t, `{"uri":"mem://t","mode":"overwrite","max_rows_per_file":10,"max_rows_per_group":5,"stable_row_ids":true,
			"data_storage_version":"2.1","storage_options":{"a":"b"},"namespace":{"impl":"rest","table_id":["t"]}}`, f.last())
		stream, err := ipc.NewReader(bytes.NewReader(f.stream()))
		require.NoError(t, err)
		require.True(t, writeSchema.Equal(stream.Schema()))
		for i, want := range all {
			require.True(t, stream.Next())
			require.True(t, array.RecordEqual(want, stream.Record()), "record %d of %d x %d", i, c.count, c.rows)
		}
		require.False(t, stream.Next())
		require.NoError(t, stream.Err())
		stream.Release()
		if c.rows == 100 {
			require.EqualValues(t, 1, f.pushes(), "small records cross together")
		}
	}
}

func TestWrite_ZeroOptions(t *testing.T) {
	f := newFake(t)
	reader, _ := records(t, memory.DefaultAllocator, 1, 1)
	_, err := f.write(t.Context(), "mem://t", reader, WriteOptions{})
	require.NoError(t, err)
	require.JSONEq(t, `{"uri":"mem://t","mode":"create"}`, f.last())
}

// Whatever goes wrong, nothing is committed, nothing is left, and the error says what it was.
func TestWrite_Faults(t *testing.T) {
	broken := errors.New("the source is broken")
	for name, c := range map[string]struct {
		prepare func(f *fake, r array.RecordReader) array.RecordReader
		rows    int
		is      []error
	}{
		"reader fails at once": {func(_ *fake, r array.RecordReader) array.RecordReader {
			return &faultyReader{RecordReader: r, fault: func() error { return broken }}
		}, 10, []error{broken, ErrIO}},
		"reader fails later": {func(_ *fake, r array.RecordReader) array.RecordReader {
			return &faultyReader{RecordReader: r, at: 2, fault: func() error { return broken }}
		}, 10, []error{broken, ErrIO}},
		"push fails": {func(f *fake, r array.RecordReader) array.RecordReader {
			f.fail(int32(CodeIO), "disk is full")
			return r
		}, 200_000, []error{ErrIO}},
		"last push fails": {func(f *fake, r array.RecordReader) array.RecordReader {
			f.fail(int32(CodeConflict), "another writer")
			return r
		}, 10, []error{ErrConflict}},
		"writer does not open": {func(f *fake, r array.RecordReader) array.RecordReader {
			f.fail(int32(CodeAlreadyExists), "exists")
			return r
		}, 10, []error{ErrAlreadyExists}},
		"another schema": {func(_ *fake, r array.RecordReader) array.RecordReader { return otherSchema{r} }, 10, []error{ErrInvalidArgument}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			t.Cleanup(func() { mem.AssertSize(t, 0) })
			reader, _ := records(t, mem, 4, c.rows)
			_, err := f.write(t.Context(), "mem://t", c.prepare(f, reader), WriteOptions{})
			for _, target := range c.is {
				require.ErrorIs(t, err, target)
			}
			var typed *Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, "write", typed.Op)
			require.Zero(t, f.committed())
			f.fail(0, "")
		})
	}
}

type otherSchema struct{ array.RecordReader }

func (otherSchema) Schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
}

func TestWrite_PanickingReader(t *testing.T) {
	f := newFake(t)
	reader, _ := records(t, memory.DefaultAllocator, 2, 10)
	require.PanicsWithValue(t, "boom", func() {
		_, _ = f.write(t.Context(), "mem://t", &faultyReader{RecordReader: reader, at: 1, fault: func() error { panic("boom") }}, WriteOptions{})
	})
	require.Zero(t, f.committed())
}

func TestWrite_Cancelled(t *testing.T) {
	f := newFake(t)
	reader, _ := records(t, memory.DefaultAllocator, 2, 200_000)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	f.block(1)
	defer f.block(0)
	_, err := f.write(ctx, "mem://t", reader, WriteOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, f.committed())

	// Between two records, without a native call in flight.
	f.block(0)
	ctx, cancel = context.WithCancel(t.Context())
	reader, _ = records(t, memory.DefaultAllocator, 2, 1)
	_, err = f.write(ctx, "mem://t", &faultyReader{RecordReader: reader, at: 1, fault: func() error { cancel(); return nil }}, WriteOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, f.committed())
}

func TestWrite_Invalid(t *testing.T) {
	f := newFake(t)
	for _, c := range []struct {
		uri string
		o   WriteOptions
	}{
		{"", WriteOptions{}}, {"x", WriteOptions{MaxRowsPerFile: -1}}, {"x", WriteOptions{Mode: 9}},
	} {
		_, err := f.write(t.Context(), c.uri, nil, c.o)
		require.ErrorIs(t, err, ErrInvalidArgument)
	}
}
