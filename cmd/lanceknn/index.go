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
	"github.com/lanceknn/lanceknn/distributed"
)

// indexTypes are Lance's vector indexes.
var indexTypes = []string{"IVF_PQ", "IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"}

type indexFlags struct {
	column, kind, metric, name       string
	segments, partitions, subVectors int
	replace                          bool
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
			storage, err := f.storage.options()
			if err != nil {
				return err
			}
			return c.indexBuild(cmd.Context(), args[0], storage, o)
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
	flags.BoolVar(&f.replace, "replace", false, "take the place of an index of the same name")
	f.storage.register(flags)
	return cmd
}

func (f indexFlags) options() (distributed.BuildOptions, error) {
	kind := strings.ToUpper(f.kind)
	if !slices.Contains(indexTypes, kind) {
		return distributed.BuildOptions{}, usagef("--type %q: want %s", f.kind, strings.Join(indexTypes, ", "))
	}
	metric, err := binding.ParseMetric(strings.ToLower(f.metric))
	if err != nil {
		return distributed.BuildOptions{}, usagef("--metric %q: want l2, cosine, dot or hamming", f.metric)
	}
	if f.segments < 1 {
		return distributed.BuildOptions{}, usagef("--segments %d: at least 1 is needed", f.segments)
	}
	if f.partitions < 0 || f.subVectors < 0 {
		return distributed.BuildOptions{}, usagef("--partitions %d, --sub-vectors %d: neither may be negative", f.partitions, f.subVectors)
	}
	return distributed.BuildOptions{
		Column: f.column, Type: kind, Name: f.name, Metric: metric, Segments: f.segments, Partitions: f.partitions,
		SubVectors: f.subVectors, Replace: f.replace,
	}, nil
}

func (c console) indexBuild(ctx context.Context, uri string, storage map[string]string, o distributed.BuildOptions) error {
	start := time.Now()
	version, err := c.buildIndex(ctx, uri, storage, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "built %s on %s in %s, %s, version %d\n", o.Type, o.Column, plural(o.Segments, "segment"),
		time.Since(start).Round(time.Millisecond), version)
	return nil
}

// buildIndex builds an index over the latest version and gives the one that has it.
func (c console) buildIndex(ctx context.Context, uri string, storage map[string]string, o distributed.BuildOptions) (version uint64, err error) {
	ds, err := binding.Open(ctx, uri, binding.OpenOptions{StorageOptions: storage})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	bar := c.progress("building index", -1)
	defer bar.done()
	return distributed.BuildIndex(ctx, ds, o)
}

func plural(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
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
