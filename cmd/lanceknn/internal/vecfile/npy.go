package vecfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/half"
)

const npyMagic = "\x93NUMPY"

// numpy writes the header as a Python dictionary; these find its three entries in any order.
var (
	npyDescr   = regexp.MustCompile(`['"]descr['"]\s*:\s*['"]([^'"]*)['"]`)
	npyFortran = regexp.MustCompile(`['"]fortran_order['"]\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`['"]shape['"]\s*:\s*\(([^)]*)\)`)
)

// npyTypes maps numpy's names of element types to their width and reader.
var npyTypes = map[string]struct {
	width int
	value func([]byte) float64
}{
	"<f2": {2, func(b []byte) float64 { return half.Float64(binary.LittleEndian.Uint16(b)) }},
	"<f4": {4, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	"<f8": {8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
	"|u1": {1, func(b []byte) float64 { return float64(b[0]) }},
}

// ParseNPY reads an array of one to three dimensions that numpy saved: float16, float32, float64 or uint8, little-endian,
// in C order.
func ParseNPY(data []byte) (Matrix, error) {
	if !hasPrefix(data, npyMagic) {
		return Matrix{}, errors.New("not a .npy file: it does not start with numpy's magic bytes")
	}
	header, body, err := npyHeader(data[len(npyMagic):])
	if err != nil {
		return Matrix{}, err
	}
	descr, fortran, shapeText := npyDescr.FindStringSubmatch(header), npyFortran.FindStringSubmatch(header), npyShape.FindStringSubmatch(header)
	if descr == nil || fortran == nil || shapeText == nil {
		return Matrix{}, fmt.Errorf("the .npy header %q lacks a simple descr, fortran_order or shape", strings.TrimSpace(header))
	}
	kind, ok := npyTypes[descr[1]]
	if !ok {
		return Matrix{}, fmt.Errorf("element type %q is not supported: save as float16, float32, float64 or uint8, little-endian", descr[1])
	}
	shape, err := npyDimensions(shapeText[1])
	if err != nil {
		return Matrix{}, err
	}
	if fortran[1] == "True" && len(shape) > 1 {
		return Matrix{}, errors.New("the array is in Fortran order: save numpy.ascontiguousarray(a)")
	}
	count := 1
	for _, n := range shape {
		if n > 0 && count > len(data)/n {
			return Matrix{}, fmt.Errorf("the file is too short for shape %v", shape)
		}
		count *= n
	}
	if len(body) != count*kind.width {
		return Matrix{}, fmt.Errorf("shape %v of %q needs %d bytes, the file has %d", shape, descr[1], count*kind.width, len(body))
	}
	values := make([]float64, count)
	for i := range values {
		values[i] = kind.value(body[i*kind.width:])
	}
	return newMatrix(values, shape...)
}

// npyHeader splits what follows the magic bytes into header text and array bytes.
func npyHeader(data []byte) (header string, body []byte, err error) {
	if len(data) < 4 {
		return "", nil, errors.New("the .npy header is cut off")
	}
	length, start := 0, 0
	switch major := data[0]; major {
	case 1:
		length, start = int(binary.LittleEndian.Uint16(data[2:])), 4
	case 2, 3:
		if len(data) < 6 {
			return "", nil, errors.New("the .npy header is cut off")
		}
		length, start = int(binary.LittleEndian.Uint32(data[2:])), 6
	default:
		return "", nil, fmt.Errorf("version %d of the .npy format is not known", major)
	}
	if length > len(data)-start {
		return "", nil, errors.New("the .npy header is cut off")
	}
	return string(data[start : start+length]), data[start+length:], nil
}

func npyDimensions(text string) ([]int, error) {
	var shape []int
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSuffix(strings.TrimSpace(part), "L") // Python 2 wrote long integers so
		if part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("the .npy shape (%s) is not a list of lengths", text)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// NPY encodes a C-ordered float32 array of rows x dim for numpy.
func NPY(values []float32, rows, dim int) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, dim)
	// numpy asks for the data to start at a multiple of 64.
	const preamble = len(npyMagic) + 4
	header += strings.Repeat(" ", 63-(preamble+len(header))%64) + "\n"
	out := make([]byte, 0, preamble+len(header)+4*len(values))
	out = append(out, npyMagic...)
	out = append(out, 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
	out = append(out, header...)
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}
