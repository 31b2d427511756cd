package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/render"
)

// indexTypes are Lance's vector indexes.
var indexTypes = []string{"IVF_PQ", "IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"}

type indexFlags struct {
	column, kind, metric, name       string
	segments, partitions, subVectors int
	storage                          storageFlags
}

func (c console) indexCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Build and list vector indexes",
		Args:  subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.indexBuildCommand(), c.indexListCommand())
	return cmd
}

func (c console) indexBuildCommand() *cobra.Command {
	var f indexFlags
	cmd := &cobra.Command{
		Use:   "build URI",
		Short: "Build a vector index, whole or by segments",
		Long: `Build a vector index over every fragment, as one segment or as several. A segment covers a run of neighbouring fragments; runs
are chosen so that segments hold about the same number of rows.`,
		Example: `  lanceknn index build demo.lance --column vec --type IVF_PQ --segments 8`,
		Args:    oneURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "column"); err != nil {
				return err
			}
			o, err := f.options()
			if err != nil {
				return err
			}
			return c.indexBuild(cmd.Context(), args[0], o, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.column, "column", "", "vector column, in Lance's syntax (back-ticks quote)")
	flags.StringVar(&f.kind, "type", "IVF_PQ", strings.Join(indexTypes, ", "))
	flags.IntVar(&f.segments, "segments", 1, "number of segments")
	flags.StringVar(&f.metric, "metric", "", "l2, cosine, dot or hamming (default: l2, or hamming for uint8)")
	flags.IntVar(&f.partitions, "partitions", 0, "IVF partitions of each segment (default: Lance's)")
	flags.IntVar(&f.subVectors, "sub-vectors", 0, "sub-vectors of product quantisation (default: Lance's)")
	flags.StringVar(&f.name, "name", "", "name of the index (default: the column's with _idx)")
	f.storage.register(flags)
	return cmd
}

func (f indexFlags) options() (binding.IndexOptions, error) {
	kind := strings.ToUpper(f.kind)
	if !slices.Contains(indexTypes, kind) {
		return binding.IndexOptions{}, usagef("--type %q: want %s", f.kind, strings.Join(indexTypes, ", "))
	}
	metric, err := binding.ParseMetric(strings.ToLower(f.metric))
	if err != nil {
		return binding.IndexOptions{}, usagef("--metric %q: want l2, cosine, dot or hamming", f.metric)
	}
	if f.segments < 1 {
		return binding.IndexOptions{}, usagef("--segments %d: at least 1 is needed", f.segments)
	}
	if f.partitions < 0 || f.subVectors < 0 {
		return binding.IndexOptions{}, usagef("--partitions %d, --sub-vectors %d: neither may be negative", f.partitions, f.subVectors)
	}
	name := f.name
	if name == "" {
		name = strings.ReplaceAll(f.column, "`", "") + "_idx"
	}
	return binding.IndexOptions{
		Column: f.column, Type: kind, Name: name, Metric: metric, Partitions: f.partitions, SubVectors: f.subVectors,
	}, nil
}

func (c console) indexBuild(ctx context.Context, uri string, o binding.IndexOptions, f indexFlags) (err error) {
	storage, err := f.storage.options()
	if err != nil {
		return err
	}
	ds, err := binding.Open(ctx, uri, binding.OpenOptions{StorageOptions: storage})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	start := time.Now()
	version, err := c.buildIndex(ctx, ds, o, f.segments)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "built %s %s on %s in %s, %s, version %d\n", o.Type, o.Name, o.Column,
		plural(f.segments, "segment"), time.Since(start).Round(time.Millisecond), version)
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// buildIndex builds and commits an index of n segments.
func (c console) buildIndex(ctx context.Context, ds *binding.Dataset, o binding.IndexOptions, n int) (uint64, error) {
	d, err := ds.Describe(ctx)
	if err != nil {
		return 0, err
	}
	for _, index := range d.Indexes {
		if index.Name == o.Name {
			return 0, fmt.Errorf("index %q exists (%s on %s): choose another --name", o.Name, index.Type, index.Column)
		}
	}
	runs, err := segmentRuns(d.Fragments, n)
	if err != nil {
		return 0, err
	}
	bar := c.progress("building segments", n)
	defer bar.done()
	if n == 1 {
		return ds.CreateIndex(ctx, o)
	}
	built := make([]binding.IndexSegment, 0, n)
	for _, fragments := range runs {
		o.Fragments = fragments
		segment, err := ds.CreateIndexSegment(ctx, o)
		if err != nil {
			return 0, err
		}
		built = append(built, segment)
		bar.add(1)
	}
	return ds.CommitIndexSegments(ctx, o.Name, o.Column, built)
}

// segmentRuns divides fragments into n runs of neighbours with about the same number of live rows. Neighbours, because rows
// written together are often alike, and a segment of like rows can be passed over as a whole.
func segmentRuns(fragments []binding.Fragment, n int) ([][]uint32, error) {
	if n > len(fragments) {
		return nil, fmt.Errorf("%s cannot be divided into %d segments: a segment covers whole fragments", plural(len(fragments), "fragment"), n)
	}
	total := uint64(0)
	for _, f := range fragments {
		total += f.LiveRows()
	}
	runs := make([][]uint32, n)
	run, before := 0, uint64(0)
	for i, f := range fragments {
		// A fragment goes to the run in which its middle lies, but every run gets one, and enough are left for the rest.
		middle := before + f.LiveRows()/2
		for run < n-1 && len(runs[run]) > 0 && (middle*uint64(n) >= total*uint64(run+1) || len(fragments)-i <= n-1-run) {
			run++
		}
		runs[run] = append(runs[run], f.ID)
		before += f.LiveRows()
	}
	return runs, nil
}

func (c console) indexListCommand() *cobra.Command {
	var output string
	var storage storageFlags
	cmd := &cobra.Command{
		Use:   "list URI",
		Short: "List the vector indexes of a dataset",
		Args:  oneURI,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if output != "table" && output != "json" {
				return usagef("--output %q: want table or json", output)
			}
			options, err := storage.options()
			if err != nil {
				return err
			}
			ds, err := binding.Open(cmd.Context(), args[0], binding.OpenOptions{StorageOptions: options})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, ds.Close()) }()
			d, err := ds.Describe(cmd.Context())
			if err != nil {
				return err
			}
			return c.listIndexes(d, output)
		},
	}
	cmd.Flags().StringVar(&output, "output", "table", "table or json")
	storage.register(cmd.Flags())
	return cmd
}

type listedIndex struct {
	Name        string          `json:"name"`
	Column      string          `json:"column"`
	Type        string          `json:"type"`
	Metric      string          `json:"metric"`
	LiveRows    uint64          `json:"live_rows"`
	CoveredRows uint64          `json:"covered_rows"`
	Segments    []listedSegment `json:"segments"`
}

type listedSegment struct {
	ID         binding.SegmentID `json:"uuid"`
	Fragments  []uint32          `json:"fragments"` // null: the segment does not say
	LiveRows   uint64            `json:"live_rows"`
	Partitions int               `json:"partitions"`
	Problem    string            `json:"problem,omitempty"`
}

func listed(d *binding.Description) []listedIndex {
	rows := make(map[uint32]uint64, len(d.Fragments))
	total := uint64(0)
	for _, f := range d.Fragments {
		rows[f.ID] = f.LiveRows()
		total += f.LiveRows()
	}
	indexes := []listedIndex{}
	for _, index := range d.Indexes {
		l := listedIndex{
			Name: index.Name, Column: index.Column, Type: index.Type, Metric: index.Metric.String(), LiveRows: total, Segments: []listedSegment{},
		}
		covered := map[uint32]bool{}
		for _, s := range index.Segments {
			segment := listedSegment{ID: s.ID, Fragments: s.Fragments, Partitions: s.Partitions, Problem: s.Problem}
			ids := s.Fragments
			if s.NoBitmap {
				// Such a segment says nothing, and Lance takes it to cover all.
				segment.Fragments, ids = nil, nil
				for _, f := range d.Fragments {
					ids = append(ids, f.ID)
				}
			}
			for _, id := range ids {
				segment.LiveRows += rows[id]
				if !covered[id] {
					covered[id] = true
					l.CoveredRows += rows[id]
				}
			}
			l.Segments = append(l.Segments, segment)
		}
		indexes = append(indexes, l)
	}
	return indexes
}

func (c console) listIndexes(d *binding.Description, output string) error {
	indexes := listed(d)
	if output == "json" {
		e := json.NewEncoder(c.out)
		e.SetEscapeHTML(false)
		return e.Encode(indexes)
	}
	t := render.Table{
		Header: []string{"name", "column", "type", "metric", "segments", "partitions", "covered rows", "live rows"},
		Left:   []bool{true, true, true, true},
	}
	for _, l := range indexes {
		partitions := 0
		for _, s := range l.Segments {
			partitions += s.Partitions
		}
		t.Rows = append(t.Rows, []string{
			l.Name, l.Column, l.Type, l.Metric, strconv.Itoa(len(l.Segments)), strconv.Itoa(partitions),
			strconv.FormatUint(l.CoveredRows, 10), strconv.FormatUint(l.LiveRows, 10),
		})
	}
	_, err := t.WriteTo(c.out)
	return err
}
