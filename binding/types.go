package binding

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"unsafe"
)

// SegmentID is the UUID of one segment of an index.
type SegmentID [16]byte

// ParseSegmentID reads a hyphenated UUID.
func ParseSegmentID(s string) (SegmentID, error) {
	var id SegmentID
	if err := id.UnmarshalText([]byte(s)); err != nil {
		return SegmentID{}, err
	}
	return id, nil
}

// String gives the hyphenated, lower-case form.
func (id SegmentID) String() string {
	text, _ := id.MarshalText()
	return string(text)
}

// MarshalText gives the form of [SegmentID.String]; it never fails.
func (id SegmentID) MarshalText() ([]byte, error) {
	text := make([]byte, 36)
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return text, nil
}

// UnmarshalText reads a hyphenated UUID, in either case.
func (id *SegmentID) UnmarshalText(text []byte) error {
	malformed := len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-'
	if !malformed {
		digits := make([]byte, 0, 32)
		for _, part := range [][]byte{text[0:8], text[9:13], text[14:18], text[19:23], text[24:36]} {
			digits = append(digits, part...)
		}
		var parsed SegmentID
		if _, err := hex.Decode(parsed[:], digits); err == nil {
			*id = parsed
			return nil
		}
	}
	return invalid("parse segment id", "segment id %q is not a hyphenated uuid", text)
}

// Metric is the distance between vectors. For every metric smaller is nearer: L2 is squared, Dot is 1 - dot (may be negative), Cosine is 1 - cos, Hamming
// counts differing bits. The zero value leaves the choice to the index, and without one means L2, or Hamming for uint8.
type Metric uint32

// The metrics of Lance.
const (
	MetricUnset Metric = iota
	L2
	Cosine
	Dot
	Hamming
)

var metricNames = []string{"", "l2", "cosine", "dot", "hamming"}

// String gives Lance's name, empty for MetricUnset.
func (m Metric) String() string { return name(metricNames, uint32(m), "metric") }

// ParseMetric reads l2, cosine, dot or hamming in lower case; the empty string is MetricUnset.
func ParseMetric(s string) (Metric, error) {
	i, err := parse(metricNames, s, "metric")
	return Metric(i), err
}

// MarshalText gives Lance's name.
func (m Metric) MarshalText() ([]byte, error) { return marshal(metricNames, uint32(m), "metric") }

// UnmarshalText is [ParseMetric].
func (m *Metric) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMetric(string(text))
	return err
}

// ApproxMode trades the precision of approximate distances (IVF_RQ) for speed.
type ApproxMode uint32

// The modes of Lance; the zero value is its default.
const (
	ApproxNormal ApproxMode = iota
	ApproxFast
	ApproxAccurate
)

var approxModeNames = []string{"normal", "fast", "accurate"}

// String gives Lance's name.
func (m ApproxMode) String() string { return name(approxModeNames, uint32(m), "approx mode") }

// ParseApproxMode reads normal, fast or accurate.
func ParseApproxMode(s string) (ApproxMode, error) {
	i, err := parse(approxModeNames, s, "approx mode")
	return ApproxMode(i), err
}

// ValueType is the element type of vectors.
type ValueType uint32

// The element types a vector column can have.
const (
	Float16 ValueType = iota + 1
	Float32
	Float64
	Uint8
)

var valueTypeNames = []string{"", "float16", "float32", "float64", "uint8"}

// String gives Arrow's name.
func (t ValueType) String() string { return name(valueTypeNames, uint32(t), "value type") }

// Size is the number of bytes of one value, 0 for an unknown type.
func (t ValueType) Size() int {
	switch t {
	case Float16:
		return 2
	case Float32:
		return 4
	case Float64:
		return 8
	case Uint8:
		return 1
	}
	return 0
}

// MarshalText gives Arrow's name.
func (t ValueType) MarshalText() ([]byte, error) {
	return marshal(valueTypeNames, uint32(t), "value type")
}

// UnmarshalText reads Arrow's name.
func (t *ValueType) UnmarshalText(text []byte) error {
	i, err := parse(valueTypeNames, string(text), "value type")
	*t = ValueType(i)
	return err
}

// Path is the way through the native core: the Scanner, which takes every query, or the index interface, which is faster and takes some.
type Path uint32

// PathAuto takes the direct path where the query is eligible.
const (
	PathAuto Path = iota
	PathScanner
	PathDirect
)

var pathNames = []string{"auto", "scanner", "direct"}

// String gives auto, scanner or direct.
func (p Path) String() string { return name(pathNames, uint32(p), "path") }

// Probing is the rule that says which partitions of the segments are read.
type Probing uint32

// ProbingAuto is ProbingShared when the request sets nothing about probes, else ProbingPerSegment. ProbingPerSegment is Lance's own rule, applied segment
// by segment; ProbingShared gives one budget to all segments of the request together.
const (
	ProbingAuto Probing = iota
	ProbingPerSegment
	ProbingShared
)

var probingNames = []string{"auto", "per-segment", "shared"}

// String gives auto, per-segment or shared.
func (p Probing) String() string { return name(probingNames, uint32(p), "probing") }

// Vectors is an immutable matrix of query vectors. Whoever makes one copies the caller's values into Data, so that slices of it can be shared by tasks.
type Vectors struct {
	Data     []byte    // little-endian values, row by row: Queries x max(1, PerQuery) x Dim
	Type     ValueType // must be the column's, or one that Lance converts to it
	Queries  int
	PerQuery int // 0: one plain vector a query; n: a multivector of n vectors a query
	Dim      int
}

// Slice gives the queries from <= q < to; memory is shared. It panics when the range is not within the queries, as slicing does.
func (v Vectors) Slice(from, to int) Vectors {
	if from < 0 || to < from || to > v.Queries {
		panic(fmt.Sprintf("binding: vectors: queries %d:%d of %d", from, to, v.Queries))
	}
	stride := max(1, v.PerQuery) * v.Dim * v.Type.Size()
	out := v
	out.Data = v.Data[from*stride : to*stride : to*stride]
	out.Queries = to - from
	return out
}

// aligned gives the values at an address that their type can be read at: slices of bytes may begin anywhere.
func (v Vectors) aligned() []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(v.Data)))
	if size := v.Type.Size(); size == 0 || address%uintptr(size) == 0 {
		return v.Data
	}
	words := make([]uint64, (len(v.Data)+7)/8)
	out := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(v.Data))
	copy(out, v.Data)
	return out
}

func (v Vectors) validate(op string) error {
	size := v.Type.Size()
	switch {
	case size == 0:
		return invalid(op, "query vectors have unknown value type %d; use Float16, Float32, Float64 or Uint8", uint32(v.Type))
	case v.Queries <= 0:
		return invalid(op, "number of queries is %d; give at least one query vector", v.Queries)
	case v.Dim <= 0:
		return invalid(op, "query vectors have dimension %d; it must be positive", v.Dim)
	case v.PerQuery < 0:
		return invalid(op, "vectors per query is %d; it must not be negative", v.PerQuery)
	}
	want := uint64(size)
	for _, factor := range []int{v.Queries, max(1, v.PerQuery), v.Dim} {
		over, product := bits.Mul64(want, uint64(factor))
		if over != 0 {
			return invalid(op, "query vectors of shape %d x %d x %d are too large", v.Queries, max(1, v.PerQuery), v.Dim)
		}
		want = product
	}
	if uint64(len(v.Data)) != want {
		return invalid(op, "query vectors have %d bytes; shape %d x %d x %d of %s needs %d",
			len(v.Data), v.Queries, max(1, v.PerQuery), v.Dim, v.Type, want)
	}
	return nil
}

func name(names []string, i uint32, kind string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

func marshal(names []string, i uint32, kind string) ([]byte, error) {
	if int(i) >= len(names) {
		return nil, invalid("marshal "+kind, "unknown %s %d", kind, i)
	}
	return []byte(names[i]), nil
}

func parse(names []string, s, kind string) (int, error) {
	for i, n := range names {
		if n == s {
			return i, nil
		}
	}
	var known []string
	for _, n := range names {
		if n != "" {
			known = append(known, n)
		}
	}
	return 0, invalid("parse "+kind, "unknown %s %q; known are %v", kind, s, known)
}
