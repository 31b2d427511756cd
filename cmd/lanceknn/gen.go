package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/synth"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/vecfile"
)

type genFlags struct {
	rows, dim, fragments int
	seed                 uint64
	sorted, overwrite    bool
	queries              string
	queryCount           int
	storage              storageFlags
}

func (c console) genCommand() *cobra.Command {
	var f genFlags
	cmd := &cobra.Command{
		Use:   "gen URI",
		Short: "Write a dataset of clustered vectors",
		Long: `Write a dataset with the columns id (int64, the row's number), category (int32, 0 to 99), title (string) and vec (a fixed-size
list of float32). Vectors come from 200 clusters in a latent space of 16 dimensions, so that recall means something. The same
flags always give the same rows.`,
		Example: `  lanceknn gen demo.lance --rows 200000 --dim 128 --fragments 8 --queries queries.npy`,
		Args:    oneURI,
		RunE:    func(cmd *cobra.Command, args []string) error { return c.gen(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.rows, "rows", 200_000, "number of rows")
	flags.IntVar(&f.dim, "dim", 128, "dimension of the vectors")
	flags.IntVar(&f.fragments, "fragments", 8, "number of fragments, equal in size")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the random numbers")
	flags.BoolVar(&f.sorted, "sorted", false, "let clusters follow the fragments instead of mixing them over all")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace a dataset that exists")
	flags.StringVar(&f.queries, "queries", "", "also write query vectors of the same clusters, none of them a row, to this .npy `FILE`")
	flags.IntVar(&f.queryCount, "query-count", 64, "number of query vectors for --queries")
	f.storage.register(flags)
	return cmd
}

func (c console) gen(ctx context.Context, uri string, f genFlags) error {
	space, err := synth.New(synth.Config{Rows: f.rows, Dim: f.dim, Seed: f.seed, Sorted: f.sorted})
	if err != nil {
		return usagef("%v", err)
	}
	perFragment, err := synth.FragmentRows(f.rows, f.fragments)
	if err != nil {
		return usagef("%v", err)
	}
	if f.queryCount < 1 {
		return usagef("--query-count %d: at least 1 is needed", f.queryCount)
	}
	storage, err := f.storage.options()
	if err != nil {
		return err
	}
	mode := binding.Create
	if f.overwrite {
		mode = binding.Overwrite
	}
	version, err := c.write(ctx, uri, space, f.rows, perFragment, binding.WriteOptions{Mode: mode, StorageOptions: storage})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "wrote %d rows of dimension %d in %d fragments to %s, version %d\n", f.rows, f.dim, f.fragments, uri, version)
	if f.queries == "" {
		return nil
	}
	if err := os.WriteFile(f.queries, vecfile.NPY(space.Queries(f.queryCount), f.queryCount, f.dim), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "wrote %d query vectors to %s\n", f.queryCount, f.queries)
	return nil
}

func (c console) write(ctx context.Context, uri string, space *synth.Space, rows, perFragment int, o binding.WriteOptions) (uint64, error) {
	bar := c.progress("writing rows", rows)
	defer bar.done()
	reader := space.Reader(perFragment, bar.add)
	defer reader.Release()
	o.MaxRowsPerFile = perFragment
	return binding.Write(ctx, uri, reader, o)
}
