package distributed

import (
	"context"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lanceknn/lanceknn/binding"
)

// native is what a search needs of a dataset handle. Planning, scheduling and merging know no more than this, so their tests run on a table
// in Go memory, without the native library.
type native interface {
	URI() string
	Version() uint64
	OpenOptions() binding.OpenOptions
	Schema() (*arrow.Schema, error)
	Describe(ctx context.Context) (*binding.Description, error)
	Column(ctx context.Context, path string) (binding.ColumnInfo, error)
	CheckFilter(ctx context.Context, column, filter string) error
	Eligibility(ctx context.Context, r binding.SearchRequest) (binding.Eligibility, error)
	Search(ctx context.Context, r binding.SearchRequest) (*binding.Candidates, error)
	Refine(ctx context.Context, r binding.RefineRequest) ([]float32, error)
	Take(ctx context.Context, rowIDs []uint64, columns []string, mem memory.Allocator) (arrow.Record, error)
}

var _ native = (*binding.Dataset)(nil)
