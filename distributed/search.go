package distributed

import (
	"context"

	"github.com/lanceknn/lanceknn/binding"
)

// VectorSearch finds the k nearest rows of each query vector: [NewPlan] and [Plan.Execute] in one call.
//
// The zero Options require that the index covers every live row, let the library choose how to split the search, and use all cores. The result
// holds memory of Options.Allocator; release it when done.
func VectorSearch(ctx context.Context, ds *binding.Dataset, q Query, o Options) (*Result, error) {
	plan, err := NewPlan(ctx, ds, q, o)
	if err != nil {
		return nil, err
	}
	return plan.Execute(ctx)
}
