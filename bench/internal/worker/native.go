package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
	"github.com/lanceknn/lanceknn/binding"
)

func runNative(ds *binding.Dataset, r engine.Request, queries matrix) (*engine.Reply, error) {
	if r.Mode != spec.Single {
		return nil, fmt.Errorf("strategy %s answers single queries, not %s", spec.Native, r.Mode)
	}
	way, err := path(r.Search.Path)
	if err != nil {
		return nil, err
	}
	probes, err := probing(r.Search.Probing)
	if err != nil {
		return nil, err
	}
	request := binding.SearchRequest{
		Column: r.Search.Column, Filter: r.Search.Filter, K: r.Search.K, RefineFactor: r.Search.RefineFactor, NProbes: r.Search.NProbes,
		EF: r.Search.EF, SearchEffort: r.Search.SearchEffort, QueryParallelism: r.Search.QueryParallelism, Path: way, Probing: probes,
	}
	if request.Segments, err = segments(ds, request.Column); err != nil {
		return nil, err
	}
	found := make([]*binding.Candidates, len(r.Queries))
	reply := &engine.Reply{}
	cpu := host.SelfCPU()
	for i, number := range r.Queries {
		begin := time.Now()
		request.Vectors = plain(queries.row(number))
		if found[i], err = ds.Search(context.Background(), request); err != nil {
			return nil, fmt.Errorf("query %d: %w", number, err)
		}
		elapsed := time.Since(begin).Nanoseconds()
		reply.DurationsNS = append(reply.DurationsNS, elapsed)
		reply.WallNS += elapsed
	}
	reply.CPUNS = (host.SelfCPU() - cpu).Nanoseconds()
	for _, candidates := range found {
		var result engine.Result
		for i, id := range candidates.RowID {
			if err := result.Add(id, candidates.Distance[i]); err != nil {
				return nil, err
			}
		}
		reply.Results = append(reply.Results, result)
		stats := candidates.Stats
		reply.NativeNS = append(reply.NativeNS, stats.Total.Nanoseconds())
		add(&reply.BytesRead, stats.BytesRead)
		add(&reply.Requests, stats.Requests)
		add(&reply.PartitionsSearched, stats.PartitionsSearched)
		add(&reply.SegmentsSearched, stats.SegmentsSearched)
	}
	return reply, nil
}

// segments are those of the column's index, as the library's own searches name them: without them the native side makes a scan of Lance's choosing.
func segments(ds *binding.Dataset, column string) ([]binding.SegmentID, error) {
	description, err := ds.Describe(context.Background())
	if err != nil {
		return nil, err
	}
	for _, index := range description.Indexes {
		if index.Column != column {
			continue
		}
		var ids []binding.SegmentID
		for _, segment := range index.Segments {
			ids = append(ids, segment.ID)
		}
		return ids, nil
	}
	return nil, fmt.Errorf("column %q has no vector index", column)
}

// plain copies one vector into the binding's form.
func plain(vector []float32) binding.Vectors {
	data := make([]byte, 0, 4*len(vector))
	for _, v := range vector {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return binding.Vectors{Data: data, Type: binding.Float32, Queries: 1, Dim: len(vector)}
}
