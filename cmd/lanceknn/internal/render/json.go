package render

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/half"
)

// AppendJSON appends the i-th value of an array.
func AppendJSON(b []byte, a arrow.Array, i int) []byte {
	if a.DataType().ID() == arrow.NULL || a.IsNull(i) {
		return append(b, "null"...)
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.AppendBool(b, a.Value(i))
	case *array.Int8:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int32:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int64:
		return strconv.AppendInt(b, a.Value(i), 10)
	case *array.Uint8:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint16:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint32:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint64:
		return strconv.AppendUint(b, a.Value(i), 10)
	case *array.Float16:
		return appendFloat(b, half.Float64(a.Value(i).Uint16()), 32)
	case *array.Float32:
		return appendFloat(b, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(b, a.Value(i), 64)
	case *array.Struct:
		return appendStruct(b, a, i)
	case array.ListLike:
		return appendList(b, a, i)
	case *array.Dictionary:
		return AppendJSON(b, a.Dictionary(), a.GetValueIndex(i))
	case array.ExtensionArray:
		return AppendJSON(b, a.Storage(), i)
	default:
		return AppendString(b, text(a, i))
	}
}

// AppendString appends a quoted string.
func AppendString(b []byte, s string) []byte {
	var quoted strings.Builder
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(b, strings.TrimSuffix(quoted.String(), "\n")...)
}

func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"nan"`...)
	case math.IsInf(f, 1):
		return append(b, `"inf"`...)
	case math.IsInf(f, -1):
		return append(b, `"-inf"`...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

func appendStruct(b []byte, a *array.Struct, i int) []byte {
	b = append(b, '{')
	for f, field := range a.DataType().(*arrow.StructType).Fields() {
		if f > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, field.Name)
		b = append(b, ':')
		b = AppendJSON(b, a.Field(f), i)
	}
	return append(b, '}')
}

func appendList(b []byte, a array.ListLike, i int) []byte {
	from, to := a.ValueOffsets(i)
	b = append(b, '[')
	for j := from; j < to; j++ {
		if j > from {
			b = append(b, ',')
		}
		b = AppendJSON(b, a.ListValues(), int(j))
	}
	return append(b, ']')
}

// text gives the value of a type that has no form of its own in JSON.
func text(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.StringView:
		return a.Value(i)
	case *array.Binary:
		return base64.StdEncoding.EncodeToString(a.Value(i))
	case *array.LargeBinary:
		return base64.StdEncoding.EncodeToString(a.Value(i))
	case *array.BinaryView:
		return base64.StdEncoding.EncodeToString(a.Value(i))
	case *array.FixedSizeBinary:
		return base64.StdEncoding.EncodeToString(a.Value(i))
	case *array.Timestamp:
		return timestamp(a.DataType().(*arrow.TimestampType), a.Value(i))
	case *array.Date32:
		return a.Value(i).ToTime().Format(time.DateOnly)
	case *array.Date64:
		return a.Value(i).ToTime().Format(time.DateOnly)
	default:
		return a.ValueStr(i)
	}
}

// timestamp is in the type's own zone; a type without one says nothing of zones, so neither does the text.
func timestamp(t *arrow.TimestampType, v arrow.Timestamp) string {
	at := v.ToTime(t.Unit)
	if t.TimeZone == "" {
		return at.Format("2006-01-02T15:04:05.999999999")
	}
	if zone, err := t.GetZone(); err == nil {
		at = at.In(zone)
	}
	return at.Format(time.RFC3339Nano)
}
