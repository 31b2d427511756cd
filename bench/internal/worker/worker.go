// Package worker is this library as a contender: it answers the benchmark's protocol, and times its own calls.
package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
)

// Worker holds the open datasets and loaded queries of one process.
type Worker struct {
	datasets map[string]*binding.Dataset
	queries  map[string]matrix
}

type matrix struct {
	values []float32
	dim    int
}

func (m matrix) row(i int) []float32 { return m.values[i*m.dim : (i+1)*m.dim] }

// New returns a worker with nothing open.
func New() *Worker {
	return &Worker{datasets: map[string]*binding.Dataset{}, queries: map[string]matrix{}}
}

// Handle answers one request.
func (w *Worker) Handle(r engine.Request) (*engine.Reply, error) {
	switch r.Op {
	case "hello":
		return hello()
	case "load":
		return w.load(r)
	case "open":
		return w.open(r)
	case "close":
		ds := w.datasets[r.Handle]
		if ds == nil {
			return nil, fmt.Errorf("no handle %q", r.Handle)
		}
		delete(w.datasets, r.Handle)
		return &engine.Reply{}, ds.Close()
	case "run":
		return w.run(r)
	}
	return nil, fmt.Errorf("unknown request %q", r.Op)
}

// Close closes what is open.
func (w *Worker) Close() error {
	var errs []error
	for _, ds := range w.datasets {
		errs = append(errs, ds.Close())
	}
	return errors.Join(errs...)
}

func hello() (*engine.Reply, error) {
	if err := binding.Load(); err != nil {
		return nil, err
	}
	info, err := binding.Info()
	if err != nil {
		return nil, err
	}
	return &engine.Reply{Engine: spec.LanceKNN, PID: os.Getpid(), Versions: map[string]string{
		"go": runtime.Version(), "lance_ffi": info.Version, "lance": info.Lance, "target": info.Target, "target_cpu": info.TargetCPU, "rustc": info.Rustc,
	}}, nil
}

func (w *Worker) load(r engine.Request) (*engine.Reply, error) {
	text, err := os.ReadFile(r.Path)
	if err != nil {
		return nil, err
	}
	m := matrix{values: make([]float32, len(text)/4), dim: r.Dim}
	for i := range m.values {
		m.values[i] = math.Float32frombits(binary.LittleEndian.Uint32(text[4*i:]))
	}
	w.queries[r.Set] = m
	return &engine.Reply{Queries: len(m.values) / r.Dim}, nil
}

func (w *Worker) open(r engine.Request) (*engine.Reply, error) {
	begin := time.Now()
	ds, err := binding.Open(context.Background(), r.URI, binding.OpenOptions{Version: r.Version, StorageOptions: r.StorageOptions})
	elapsed := time.Since(begin)
	if err != nil {
		return nil, err
	}
	if old := w.datasets[r.Handle]; old != nil {
		if err := old.Close(); err != nil {
			return nil, err
		}
	}
	w.datasets[r.Handle] = ds
	return &engine.Reply{Version: ds.Version(), DurationsNS: []int64{elapsed.Nanoseconds()}}, nil
}

func (w *Worker) run(r engine.Request) (*engine.Reply, error) {
	ds, queries := w.datasets[r.Handle], w.queries[r.Set]
	if ds == nil || queries.dim == 0 {
		return nil, fmt.Errorf("no dataset %q or no query set %q", r.Handle, r.Set)
	}
	if r.Search.Strategy == spec.Native {
		return runNative(ds, r, queries)
	}
	query, options, err := request(r.Search)
	if err != nil {
		return nil, err
	}
	s := &session{ds: ds, query: query, options: options, queries: queries, reply: &engine.Reply{}}
	switch r.Mode {
	case spec.Matrix:
		err = s.matrix(r.Queries)
	case spec.Throughput:
		err = s.throughput(r.Queries, r.Clients)
	default:
		err = s.single(r.Queries)
	}
	return s.reply, err
}

func request(s *engine.Search) (distributed.Query, distributed.Options, error) {
	q := distributed.Query{
		Column: s.Column, K: s.K, NProbes: s.NProbes, RefineFactor: s.RefineFactor, EF: s.EF, QueryParallelism: s.QueryParallelism, SearchEffort: s.SearchEffort,
		Filter: s.Filter, Columns: s.Columns,
	}
	var o distributed.Options
	strategy, err := distributed.ParseStrategy(s.Strategy)
	if err != nil {
		return q, o, err
	}
	o.Strategy = strategy
	if o.Path, err = path(s.Path); err != nil {
		return q, o, err
	}
	o.Probing, err = probing(s.Probing)
	return q, o, err
}

func path(name string) (binding.Path, error) {
	switch name {
	case "", "auto":
		return binding.PathAuto, nil
	case "scanner":
		return binding.PathScanner, nil
	case "direct":
		return binding.PathDirect, nil
	}
	return 0, fmt.Errorf("unknown path %q", name)
}

func probing(name string) (binding.Probing, error) {
	switch name {
	case "", "auto":
		return binding.ProbingAuto, nil
	case "segment":
		return binding.ProbingPerSegment, nil
	case "shared":
		return binding.ProbingShared, nil
	}
	return 0, fmt.Errorf("unknown probing %q", name)
}

// session answers the queries of one request.
type session struct {
	ds      *binding.Dataset
	query   distributed.Query
	options distributed.Options
	queries matrix
	reply   *engine.Reply
}

// search is the call that is timed: from a vector in memory to rows in memory.
func (s *session) search(vectors []float32) (*distributed.Result, time.Duration, error) {
	query := s.query
	query.Vectors = distributed.Float32(vectors, s.queries.dim)
	begin := time.Now()
	result, err := distributed.VectorSearch(context.Background(), s.ds, query, s.options)
	return result, time.Since(begin), err
}

func (s *session) single(numbers []int) error {
	results := make([]*distributed.Result, len(numbers))
	durations := make([]int64, len(numbers))
	cpu := host.SelfCPU()
	for i, number := range numbers {
		result, elapsed, err := s.search(s.queries.row(number))
		if err != nil {
			return fmt.Errorf("query %d: %w", number, err)
		}
		results[i], durations[i] = result, elapsed.Nanoseconds()
		s.reply.WallNS += elapsed.Nanoseconds()
	}
	s.reply.CPUNS = (host.SelfCPU() - cpu).Nanoseconds()
	s.reply.DurationsNS = durations
	return s.collectAll(results)
}

func (s *session) matrix(numbers []int) error {
	vectors := make([]float32, 0, len(numbers)*s.queries.dim)
	for _, number := range numbers {
		vectors = append(vectors, s.queries.row(number)...)
	}
	cpu := host.SelfCPU()
	result, elapsed, err := s.search(vectors)
	if err != nil {
		return err
	}
	s.reply.CPUNS = (host.SelfCPU() - cpu).Nanoseconds()
	s.reply.DurationsNS, s.reply.WallNS = []int64{elapsed.Nanoseconds()}, elapsed.Nanoseconds()
	return s.collect(result)
}

func (s *session) throughput(numbers []int, clients int) error {
	results := make([]*distributed.Result, len(numbers))
	durations := make([]int64, len(numbers))
	errs := make([]error, clients)
	gate := make(chan struct{})
	var ready, done sync.WaitGroup
	for client := range clients {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-gate
			for i := client; i < len(numbers); i += clients {
				result, elapsed, err := s.search(s.queries.row(numbers[i]))
				if err != nil {
					errs[client] = err
					return
				}
				results[i], durations[i] = result, elapsed.Nanoseconds()
			}
		})
	}
	ready.Wait()
	cpu, begin := host.SelfCPU(), time.Now()
	close(gate)
	done.Wait()
	s.reply.WallNS = time.Since(begin).Nanoseconds()
	s.reply.CPUNS = (host.SelfCPU() - cpu).Nanoseconds()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.reply.DurationsNS = durations
	return s.collectAll(results)
}

func add(total **int64, v uint64) {
	if *total == nil {
		*total = new(int64)
	}
	**total += int64(v)
}

func (s *session) collectAll(results []*distributed.Result) error {
	var errs []error
	for _, result := range results {
		errs = append(errs, s.collect(result))
	}
	return errors.Join(errs...)
}

// collect takes a result's rows and counts over, and releases it.
func (s *session) collect(result *distributed.Result) error {
	defer result.Release()
	for q := range result.Len() {
		var r engine.Result
		for _, n := range result.Neighbors(q) {
			if err := r.Add(n.RowID, n.Distance); err != nil {
				return err
			}
		}
		s.reply.Results = append(s.reply.Results, r)
	}
	stats := result.Stats
	add(&s.reply.BytesRead, stats.BytesRead)
	add(&s.reply.Requests, stats.Requests)
	add(&s.reply.PartitionsSearched, stats.PartitionsSearched)
	add(&s.reply.SegmentsSearched, stats.SegmentsSearched)
	return nil
}
