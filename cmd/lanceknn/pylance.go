package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

//go:embed pylance.py
var pylanceScript string

// pylance is a Python process that searches with Lance's own library.
type pylance struct {
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errors  bytes.Buffer
}

type pylanceSetup struct {
	URI          string `json:"uri"`
	Queries      string `json:"queries"` // .npy file
	Column       string `json:"column"`
	K            int    `json:"k"`
	RefineFactor int    `json:"refine_factor"`
}

// startPylance runs the given interpreter, which must be able to import lance and numpy.
func startPylance(ctx context.Context, python string, setup pylanceSetup) (*pylance, error) {
	p := &pylance{cmd: exec.CommandContext(ctx, python, "-c", pylanceScript)}
	p.cmd.Stderr = &p.errors
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var hello struct {
		Version string `json:"version"`
	}
	if err := p.ask(setup, &hello); err != nil {
		p.close()
		return nil, err
	}
	p.version = hello.Version
	return p, nil
}

func (p *pylance) ask(request, reply any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return p.died(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return p.died(err)
	}
	return json.Unmarshal(line, reply)
}

// died explains a broken pipe by the last thing that Python said.
func (p *pylance) died(err error) error {
	_ = p.cmd.Wait() // its standard error is complete only then
	lines := strings.Split(strings.TrimSpace(p.errors.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("pylance: %s", last)
	}
	return fmt.Errorf("pylance: %w", err)
}

// run searches all queries once, one by one or as a matrix.
func (p *pylance) run(matrix bool, nprobes int) (run, error) {
	var reply struct {
		Milliseconds []float64   `json:"ms"`
		RowIDs       [][]uint64  `json:"row_ids"`
		Distances    [][]float32 `json:"distances"`
	}
	err := p.ask(struct {
		Matrix  bool `json:"matrix"`
		NProbes int  `json:"nprobes"`
	}{matrix, nprobes}, &reply)
	if err != nil {
		return run{}, err
	}
	r := run{neighbors: make([][]neighbor, len(reply.RowIDs))}
	for _, ms := range reply.Milliseconds {
		r.times = append(r.times, time.Duration(ms*float64(time.Millisecond)))
	}
	for q, ids := range reply.RowIDs {
		for i, id := range ids {
			r.neighbors[q] = append(r.neighbors[q], neighbor{rowID: id, distance: reply.Distances[q][i]})
		}
	}
	return r, nil
}

func (p *pylance) close() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}
