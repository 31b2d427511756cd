package distributed

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/lanceknn/lanceknn/binding"
)

// BuildOptions describe a vector index to build by segments. Column and Type are required.
type BuildOptions struct {
	Column string
	// Name of the index. Empty: the column's path and "_idx".
	Name   string
	Type   string         // IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_SQ or IVF_HNSW_PQ
	Metric binding.Metric // unset: L2, and hamming for uint8 columns

	// Segments is the number of segments; 0 is one. Each covers a run of fragments next to each other, with about as many live rows as the others,
	// so there cannot be more segments than fragments with live rows.
	Segments int
	// Parallelism is the number of segments built at once. Each build uses all cores for most of its time, and the memory of its training
	// sample for all of it. 0: half the cores.
	Parallelism int
	// Replace allows an index of the same name, which the new one takes the place of.
	Replace bool

	// The parameters of each segment, as in [binding.IndexOptions]; 0 leaves them to Lance.
	Partitions, SubVectors, NumBits int
	MaxLevel, M, EFConstruction     int
	SampleRate, MaxIterations       int
}

// builder is what building an index needs of a dataset handle.
type builder interface {
	Describe(ctx context.Context) (*binding.Description, error)
	Column(ctx context.Context, path string) (binding.ColumnInfo, error)
	CreateIndexSegment(ctx context.Context, o binding.IndexOptions) (binding.IndexSegment, error)
	CommitIndexSegments(ctx context.Context, name, column string, segments []binding.IndexSegment) (uint64, error)
}

var _ builder = (*binding.Dataset)(nil)

// BuildIndex builds an index as segments over groups of fragments and commits them as one index. It gives the version of the commit; ds stays
// on its own, so open that version to use the index. Nothing is committed when a segment fails or ctx ends.
//
// Errors are [ArgumentError] (which matches [binding.ErrAlreadyExists] where the name is taken), a [SegmentBuildError], those of
// [binding.Dataset.CommitIndexSegments], and that of ctx.
func BuildIndex(ctx context.Context, ds *binding.Dataset, o BuildOptions) (version uint64, err error) {
	if ds == nil {
		return 0, &ArgumentError{Name: "dataset", Reason: "it is nil; open it first"}
	}
	return buildIndex(ctx, ds, o)
}

// SegmentBuildError is the failure of one segment. It unwraps to what failed.
type SegmentBuildError struct {
	Segment   int // position of the segment
	Fragments []uint32
	Err       error
}

func (e *SegmentBuildError) Error() string {
	return fmt.Sprintf("distributed: build segment %d over fragments %s: %v", e.Segment, formatFragments(e.Fragments), e.Err)
}

func (e *SegmentBuildError) Unwrap() error { return e.Err }

func buildIndex(ctx context.Context, ds builder, o BuildOptions) (uint64, error) {
	if ctx.Err() != nil {
		return 0, ended(ctx, "build index")
	}
	if err := o.validate(); err != nil {
		return 0, err
	}
	column, err := ds.Column(ctx, o.Column)
	if err != nil {
		return 0, describeColumn(o.Column, err)
	}
	if o.Name == "" {
		o.Name = column.Path + "_idx"
	}
	description, err := ds.Describe(ctx)
	if err != nil {
		return 0, fmt.Errorf("distributed: describe: %w", err)
	}
	if err := o.checkName(description); err != nil {
		return 0, err
	}
	groups, err := o.groups(liveFragments(description.Fragments))
	if err != nil {
		return 0, err
	}
	segments, err := o.buildAll(ctx, ds, groups)
	if err != nil {
		return 0, err
	}
	version, err := ds.CommitIndexSegments(ctx, o.Name, o.Column, segments)
	if err != nil {
		return 0, fmt.Errorf("distributed: commit index %q: %w", o.Name, err)
	}
	return version, nil
}

func (o *BuildOptions) validate() error {
	switch {
	case o.Column == "":
		return &ArgumentError{Name: "Column", Reason: "no vector column given"}
	case o.Type == "":
		return &ArgumentError{Name: "Type", Reason: "no index type given; IVF_PQ is small and fast, IVF_FLAT exact in what it reads"}
	case o.Metric > binding.Hamming:
		return &ArgumentError{Name: "Metric", Reason: fmt.Sprintf("unknown metric %d", o.Metric)}
	case o.Segments < 0:
		return &ArgumentError{Name: "Segments", Reason: fmt.Sprintf("%d is negative; use 0 for one segment", o.Segments)}
	case o.Parallelism < 0:
		return &ArgumentError{Name: "Parallelism", Reason: fmt.Sprintf("%d is negative; use 0 for the default", o.Parallelism)}
	}
	return checkSearchable(o.Column)
}

func (o *BuildOptions) checkName(d *binding.Description) error {
	taken := slices.ContainsFunc(d.Indexes, func(x binding.VectorIndex) bool { return x.Name == o.Name }) ||
		slices.ContainsFunc(d.OtherIndexes, func(x binding.ScalarIndex) bool { return x.Name == o.Name })
	if taken && !o.Replace {
		return &ArgumentError{
			Name: "Name", Err: binding.ErrAlreadyExists,
			Reason: fmt.Sprintf("the dataset has an index %q; choose another name, or set Replace", o.Name),
		}
	}
	return nil
}

// groups cuts the fragments into runs, so that the longest holds as few live rows as any cut allows. Runs, not the balance of free choice:
// fragments next to each other were written together and often hold similar vectors, and a search for others leaves a segment of similar
// vectors alone.
func (o *BuildOptions) groups(live []binding.Fragment) ([][]uint32, error) {
	n := max(1, o.Segments)
	switch {
	case len(live) == 0:
		return nil, &ArgumentError{Name: "dataset", Reason: "it has no live rows to build an index from; write some first"}
	case len(live) < n:
		return nil, &ArgumentError{Name: "Segments", Reason: fmt.Sprintf("%d segments need as many fragments with live rows, and there are %d; "+
			"use fewer segments, or write the dataset in more files", n, len(live))}
	}
	limit := uint64(sort.Search(int(min(liveRows(live), math.MaxInt)), func(limit int) bool {
		return len(runs(live, 1, uint64(limit))) <= n
	}))
	return runs(live, n, limit), nil
}

// runs fills each run up to limit rows, and closes it earlier where the fragments left would not make least runs. A fragment above the limit is
// a run of its own.
func runs(live []binding.Fragment, least int, limit uint64) [][]uint32 {
	var groups [][]uint32
	var rows uint64
	for i, f := range live {
		needed, left := least-len(groups), len(live)-i
		if i == 0 || rows+f.LiveRows() > limit || left <= needed {
			groups = append(groups, nil)
			rows = 0
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], f.ID)
		rows += f.LiveRows()
	}
	return groups
}

func (o *BuildOptions) buildAll(ctx context.Context, ds builder, groups [][]uint32) ([]binding.IndexSegment, error) {
	parallelism := o.Parallelism
	if parallelism == 0 {
		parallelism = max(1, runtime.GOMAXPROCS(0)/2)
	}
	segments := make([]binding.IndexSegment, len(groups))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(min(parallelism, math.MaxInt32))
	for i, fragments := range groups {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			segment, err := ds.CreateIndexSegment(groupCtx, binding.IndexOptions{
				Column: o.Column, Name: o.Name, Type: o.Type, Metric: o.Metric, Partitions: o.Partitions, SubVectors: o.SubVectors, NumBits: o.NumBits,
				MaxLevel: o.MaxLevel, M: o.M, EFConstruction: o.EFConstruction, SampleRate: o.SampleRate, MaxIterations: o.MaxIterations,
				Replace: o.Replace, Fragments: fragments,
			})
			if err != nil {
				return &SegmentBuildError{Segment: i, Fragments: fragments, Err: err}
			}
			segments[i] = segment
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return nil, ended(ctx, "build index")
	}
	return segments, err
}
