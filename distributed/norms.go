package distributed

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lanceknn/lanceknn/binding"
)

// withoutDirection finds the queries that have no cosine distance to anything: zero vectors. Their answer is empty, as in a flat scan of
// Lance; an index would divide by their length and search for NaN. The remaining vectors are searched, ids[i] being the query of row i;
// ids is nil when all remain.
//
// A vector that is not zero but whose squared length is, or is infinite, in the precision Lance computes in has a direction that Lance cannot
// see: that is a [QueryError], as is a zero vector inside a multivector query.
func withoutDirection(v binding.Vectors) (remaining binding.Vectors, ids []uint32, err error) {
	perQuery := max(1, v.PerQuery)
	width := v.Dim * v.Type.Size()
	dropped := 0
	for row := range v.Queries * perQuery {
		query, position := row/perQuery, row%perQuery*v.Dim
		switch norm, zero := squaredNorm(v.Type, v.Data[row*width:(row+1)*width]); {
		case zero && v.PerQuery == 0:
			if ids == nil {
				ids = make([]uint32, 0, v.Queries)
				for q := range query {
					ids = append(ids, uint32(q))
				}
			}
			dropped++
			continue
		case zero:
			return v, nil, &QueryError{Query: query, Position: position, Reason: "a zero vector has no cosine distance"}
		case norm == 0:
			return v, nil, &QueryError{Query: query, Position: position, Reason: fmt.Sprintf("the vector is too short for a cosine distance in %s; scale it up", v.Type)}
		case math.IsInf(norm, 0):
			return v, nil, &QueryError{Query: query, Position: position, Reason: fmt.Sprintf("the vector is too long for a cosine distance in %s; scale it down", v.Type)}
		}
		if dropped > 0 {
			ids = append(ids, uint32(query))
		}
	}
	if dropped == 0 {
		return v, nil, nil
	}
	data := make([]byte, 0, len(ids)*width)
	for _, q := range ids {
		data = append(data, v.Data[int(q)*width:(int(q)+1)*width]...)
	}
	v.Data, v.Queries = data, len(ids)
	return v, ids, nil
}

// squaredNorm is computed in the precision of Lance's accumulator: float32 for float16 and float32 vectors, float64 for float64.
func squaredNorm(t binding.ValueType, row []byte) (norm float64, zero bool) {
	zero = true
	switch t {
	case binding.Float16:
		var sum float32
		for ; len(row) >= 2; row = row[2:] {
			x := float32(halfToFloat64(binary.LittleEndian.Uint16(row)))
			zero = zero && x == 0
			sum += x * x
		}
		return float64(sum), zero
	case binding.Float32:
		var sum float32
		for ; len(row) >= 4; row = row[4:] {
			x := math.Float32frombits(binary.LittleEndian.Uint32(row))
			zero = zero && x == 0
			sum += x * x
		}
		return float64(sum), zero
	default:
		for ; len(row) >= 8; row = row[8:] {
			x := math.Float64frombits(binary.LittleEndian.Uint64(row))
			zero = zero && x == 0
			norm += x * x
		}
		return norm, zero
	}
}
