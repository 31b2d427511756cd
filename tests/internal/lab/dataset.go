package lab

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

// Dataset is a dataset of one test, changed through pylance so that the library is judged by what it reads and not by
// what it wrote.
type Dataset struct {
	URI   string
	Table Table // the schema; its rows are those of the first write

	t       testing.TB
	py      *pylance.Bridge
	storage map[string]string
}

// WriteOption adds to a write.
type WriteOption func(pylance.Args)

// Rows per file.
func Rows(n int) WriteOption {
	return func(a pylance.Args) { a["max_rows_per_file"] = n }
}

// StableRowIDs switches stable row ids on.
func StableRowIDs(on bool) WriteOption {
	return func(a pylance.Args) { a["stable_row_ids"] = on }
}

// Create writes a table as a new dataset in a folder of the test.
func Create(t testing.TB, table Table, options ...WriteOption) *Dataset {
	t.Helper()
	d := &Dataset{URI: filepath.Join(t.TempDir(), "t.lance"), Table: table, t: t, py: pylance.Shared(t)}
	d.write("create", table, options...)
	return d
}

// Fragments writes tables of one schema as a new dataset with a fragment for each.
func Fragments(t testing.TB, tables ...Table) *Dataset {
	t.Helper()
	d := Create(t, tables[0])
	for _, table := range tables[1:] {
		d.Append(table)
	}
	return d
}

func (d *Dataset) write(mode string, table Table, options ...WriteOption) uint64 {
	d.t.Helper()
	record := table.Record()
	defer record.Release()
	args := pylance.Args{"mode": mode, "ipc": pylance.IPC(record)}
	for _, o := range options {
		o(args)
	}
	return d.Do("write", args)
}

// Do runs an operation of the bridge that makes a version.
func (d *Dataset) Do(op string, args pylance.Args) uint64 {
	d.t.Helper()
	return d.py.Commit(d.t, op, d.args(args))
}

// Append adds rows in fragments of their own.
func (d *Dataset) Append(table Table, options ...WriteOption) uint64 {
	d.t.Helper()
	return d.write("append", table, options...)
}

// Delete removes the rows that match a predicate.
func (d *Dataset) Delete(predicate string) uint64 {
	d.t.Helper()
	return d.Do("delete", pylance.Args{"predicate": predicate})
}

// MergeInsert updates rows by id and inserts those that are new.
func (d *Dataset) MergeInsert(table Table) uint64 {
	d.t.Helper()
	record := table.Record()
	defer record.Release()
	return d.Do("merge_insert", pylance.Args{"on": "id", "ipc": pylance.IPC(record)})
}

// Compact rewrites all fragments into one, with index remapping deferred or not.
func (d *Dataset) Compact(deferRemap bool) uint64 {
	d.t.Helper()
	return d.Do("compact", pylance.Args{"defer_index_remap": deferRemap})
}

// Optimize brings the indexes up to date, merging the given number of segments.
func (d *Dataset) Optimize(merge int) uint64 {
	d.t.Helper()
	return d.Do("optimize", pylance.Args{"merge": merge})
}

// Index says how to build a vector index.
type Index struct {
	Name       string // "vectors" when empty
	Column     string // the vector column of the table when empty
	Type       string // IVF_FLAT when empty
	Metric     oracle.Metric
	Partitions int // 1 when zero
	SubVectors int
	Bits       int
	Groups     [][]int // the fragments of each segment; nil: one index over everything
}

// Index builds a vector index.
func (d *Dataset) Index(i Index) uint64 {
	d.t.Helper()
	version, err := d.TryIndex(i)
	require.NoError(d.t, err)
	return version
}

// TryIndex is Index for one that may be refused.
func (d *Dataset) TryIndex(i Index) (uint64, error) {
	args := pylance.Args{
		"name": or(i.Name, "vectors"), "column": or(i.Column, d.Table.Column()),
		"type": or(i.Type, "IVF_FLAT"), "metric": string(or(i.Metric, oracle.L2)), "num_partitions": or(i.Partitions, 1),
	}
	if i.SubVectors > 0 {
		args["num_sub_vectors"] = i.SubVectors
	}
	if i.Bits > 0 {
		args["num_bits"] = i.Bits
	}
	if i.Groups != nil {
		args["groups"] = i.Groups
	}
	var out struct{ Version uint64 }
	err := d.py.Call("create_index", d.args(args), &out)
	return out.Version, err
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Fragment is a fragment as pylance describes it.
type Fragment struct {
	ID           int `json:"id"`
	PhysicalRows int `json:"physical_rows"`
	DeletedRows  int `json:"deleted_rows"`
}

// Description is what pylance says about a version.
type Description struct {
	Version   uint64
	Fragments []Fragment
	Indexes   []struct {
		Name, Type string
		Segments   []struct {
			UUID      string
			Fragments []int
		}
	}
}

// Describe asks pylance about a version; 0 is the latest.
func (d *Dataset) Describe(version uint64) Description {
	d.t.Helper()
	var out Description
	require.NoError(d.t, d.py.Call("describe", d.args(pylance.Args{"version": version}), &out))
	return out
}

// Open opens a version with the library, until the end of the test; 0 is the latest.
func (d *Dataset) Open(version uint64) *binding.Dataset {
	d.t.Helper()
	return Open(d.t, d.URI, binding.OpenOptions{Version: version, StorageOptions: d.storage})
}

// Open opens a dataset with the library, until the end of the test.
func Open(t testing.TB, uri string, o binding.OpenOptions) *binding.Dataset {
	t.Helper()
	ds, err := binding.Open(context.Background(), uri, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ds.Close()) })
	return ds
}

// Live reads the live rows of a version through pylance, for the oracle.
func (d *Dataset) Live(version uint64) []oracle.Row {
	d.t.Helper()
	args := pylance.Args{"version": version, "columns": []string{"id", "category", d.Table.Column()}}
	records, err := d.py.Scan(d.args(args))
	require.NoError(d.t, err)
	var rows []oracle.Row
	for _, r := range records {
		rows = append(rows, rowsOf(r, d.Table)...)
		r.Release()
	}
	return rows
}

func rowsOf(r arrow.Record, table Table) []oracle.Row {
	rows := make([]oracle.Row, r.NumRows())
	for c, field := range r.Schema().Fields() {
		column := r.Column(c)
		if s, ok := column.(*array.Struct); ok {
			column = s.Field(0)
		}
		for i := range rows {
			switch field.Name {
			case "id":
				rows[i].ID = column.(*array.Int64).Value(i)
			case "category":
				rows[i].Category = column.(*array.Int32).Value(i)
			case "_rowid":
				rows[i].RowID = column.(*array.Uint64).Value(i)
			default:
				if list, ok := column.(*array.List); ok {
					if list.IsValid(i) {
						from, to := list.ValueOffsets(i)
						for j := from; j < to; j++ {
							rows[i].Multi = append(rows[i].Multi, vectorAt(list.ListValues().(*array.FixedSizeList), int(j)))
						}
					}
				} else {
					rows[i].Vector = vectorAt(column.(*array.FixedSizeList), i)
				}
			}
		}
	}
	return rows
}

// vectorAt is a vector of a column; a null coordinate is read as zero, as a flat search of Lance does.
func vectorAt(list *array.FixedSizeList, i int) []float64 {
	if list.IsNull(i) {
		return nil
	}
	from, to := list.ValueOffsets(i)
	v := make([]float64, 0, to-from)
	for j := int(from); j < int(to); j++ {
		switch values := list.ListValues().(type) {
		case *array.Float16:
			v = append(v, oracle.HalfFromBits(values.Value(j).Uint16()))
		case *array.Float32:
			v = append(v, float64(values.Value(j)))
		case *array.Float64:
			v = append(v, values.Value(j))
		case *array.Uint8:
			v = append(v, float64(values.Value(j)))
		}
		if list.ListValues().IsNull(j) {
			v[len(v)-1] = 0
		}
	}
	return v
}

// EncodeVectors lays values out as a column of the type stores them.
func EncodeVectors(typ binding.ValueType, vectors ...[]float64) []byte {
	var out []byte
	for _, v := range vectors {
		for _, x := range v {
			out = appendValue(out, typ, x)
		}
	}
	return out
}

// InStore writes a table as a new dataset at a URI with storage options, which every later operation uses too.
func InStore(t testing.TB, uri string, storage map[string]string, table Table, options ...WriteOption) *Dataset {
	t.Helper()
	d := &Dataset{URI: uri, Table: table, t: t, py: pylance.Shared(t), storage: storage}
	d.write("create", table, options...)
	return d
}

// args adds what every operation needs.
func (d *Dataset) args(more pylance.Args) pylance.Args {
	all := pylance.Args{"uri": d.URI}
	if d.storage != nil {
		all["storage_options"] = d.storage
	}
	maps.Copy(all, more)
	return all
}

// Write writes a table through the library as a new dataset in a folder of the test.
func Write(t testing.TB, table Table, o binding.WriteOptions) *Dataset {
	t.Helper()
	d := &Dataset{URI: filepath.Join(t.TempDir(), "t.lance"), Table: table, t: t, py: pylance.Shared(t)}
	write(t, d.URI, table, o)
	return d
}

// Try runs an operation of the bridge that may be refused.
func (d *Dataset) Try(op string, args pylance.Args) error {
	return d.py.Call(op, d.args(args), nil)
}

// WriteTo is Write to a URI with storage options.
func WriteTo(t testing.TB, uri string, storage map[string]string, table Table, o binding.WriteOptions) *Dataset {
	t.Helper()
	o.StorageOptions = storage
	d := &Dataset{URI: uri, Table: table, t: t, py: pylance.Shared(t), storage: storage}
	write(t, uri, table, o)
	return d
}

// WriteInto writes a table through the library into a namespace.
func WriteInto(t testing.TB, o binding.WriteOptions, table Table) {
	t.Helper()
	write(t, "", table, o)
}

// Existing is a dataset that is there already.
func Existing(t testing.TB, uri string, table Table) *Dataset {
	t.Helper()
	return &Dataset{URI: uri, Table: table, t: t, py: pylance.Shared(t)}
}

func write(t testing.TB, uri string, table Table, o binding.WriteOptions) {
	t.Helper()
	record := table.Record()
	defer record.Release()
	reader, err := array.NewRecordReader(record.Schema(), []arrow.Record{record})
	require.NoError(t, err)
	defer reader.Release()
	_, err = binding.Write(context.Background(), uri, reader, o)
	require.NoError(t, err)
}
