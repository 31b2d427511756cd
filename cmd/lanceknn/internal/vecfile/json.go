package vecfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ParseJSON reads one vector ([1, 2]), a list of vectors ([[1, 2], [3, 4]]) or a list of multivectors.
func ParseJSON(text []byte) (Matrix, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return Matrix{}, errors.New("empty: want a JSON array of numbers")
		}
		return Matrix{}, fmt.Errorf("not a JSON array of numbers: %w", eof(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Matrix{}, errors.New("more follows the JSON array")
	}
	list, ok := root.([]any)
	if !ok {
		return Matrix{}, errors.New("want a JSON array of numbers, such as [0.1, 0.2], or an array of such arrays")
	}
	p := jsonParser{}
	if err := p.list(list, nil); err != nil {
		return Matrix{}, err
	}
	return newMatrix(p.data, p.shape...)
}

type jsonParser struct {
	data  []float64
	shape []int // lengths seen on the way down to the first number; every other list must agree
}

// list reads one nested list; at holds the positions of it and its parents, for messages.
func (p *jsonParser) list(items []any, at []int) error {
	depth := len(at)
	if depth >= 3 {
		return fmt.Errorf("element %v is nested too deeply: want at most three levels of arrays", at)
	}
	if depth == len(p.shape) {
		if len(p.data) > 0 {
			return fmt.Errorf("element %v is an array where others are numbers", at)
		}
		p.shape = append(p.shape, len(items))
	}
	if len(items) != p.shape[depth] {
		return fmt.Errorf("element %v has %d items where others have %d", at, len(items), p.shape[depth])
	}
	for i, item := range items {
		where := append(slices.Clone(at), i)
		switch v := item.(type) {
		case json.Number:
			if depth != len(p.shape)-1 {
				return fmt.Errorf("element %v is a number where others are arrays", where)
			}
			f, err := v.Float64()
			if err != nil {
				return fmt.Errorf("element %v: %s is not a float64", where, v)
			}
			p.data = append(p.data, f)
		case []any:
			if err := p.list(v, where); err != nil {
				return err
			}
		default:
			return fmt.Errorf("element %v is not a number", where)
		}
	}
	return nil
}
