package vecfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Matrix is a list of vectors of one length, or, when Depth is 3, a list of lists of vectors of one length.
type Matrix struct {
	Data []float64 // row after row
	// Shape is the lengths of the nested lists, outermost first: [dim], [n, dim] or [n, m, dim]. No length is 0.
	Shape []int
}

// Dim is the length of one vector.
func (m Matrix) Dim() int { return m.Shape[len(m.Shape)-1] }

// Vectors is the number of vectors.
func (m Matrix) Vectors() int { return len(m.Data) / m.Dim() }

// Depth is the number of nested lists: 1 for a single vector, 2 for a list of them, 3 for a list of multivectors.
func (m Matrix) Depth() int { return len(m.Shape) }

// Read reads the vectors of a file, whose name ends in .npy, .arrow, .ipc, .feather or .json.
func Read(path string) (Matrix, error) {
	var parse func([]byte) (Matrix, error)
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".npy":
		parse = ParseNPY
	case ".arrow", ".arrows", ".ipc", ".feather":
		parse = ParseArrow
	case ".json":
		parse = ParseJSON
	default:
		return Matrix{}, fmt.Errorf("%s: unknown kind of file %q: use .npy, .arrow or .json", path, ext)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			return Matrix{}, fmt.Errorf("%s: %w", path, pathErr.Err)
		}
		return Matrix{}, err
	}
	m, err := parse(data)
	if err != nil {
		return Matrix{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// newMatrix checks what no caller can use.
func newMatrix(data []float64, shape ...int) (Matrix, error) {
	if len(shape) < 1 || len(shape) > 3 {
		return Matrix{}, fmt.Errorf("%d dimensions: want a vector, a list of vectors or a list of multivectors", len(shape))
	}
	want := 1
	for _, n := range shape {
		if n == 0 {
			return Matrix{}, fmt.Errorf("shape %v holds no vector", shape)
		}
		want *= n
	}
	if want != len(data) {
		return Matrix{}, fmt.Errorf("%d values do not fill shape %v", len(data), shape)
	}
	return Matrix{Data: data, Shape: shape}, nil
}

func hasPrefix(data []byte, magic string) bool { return bytes.HasPrefix(data, []byte(magic)) }

// eof turns the end of a truncated file into words.
func eof(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends too early")
	}
	return err
}
