package distributed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lanceknn/lanceknn/binding"
)

// Plan is a search that has been decided but not carried out: one version of a dataset, one index, copied query vectors, and tasks. It does
// not change and can be executed any number of times, also at once. It needs its dataset handle to be open.
type Plan struct {
	ds       native
	query    Query // without its vectors
	options  Options
	executor Executor
	column   binding.ColumnInfo
	uri      string
	version  uint64
	open     binding.OpenOptions // for tasks

	vectors binding.Vectors // of the queries that have an answer
	ids     []uint32        // position of each in the caller's matrix; nil: unchanged
	queries int             // in the caller's matrix

	catalog  *catalog
	choice   choice
	metric   binding.Metric
	sizes    sizes
	shape    shape
	eligible *binding.Eligibility // nil: nobody asked
	tasks    []Task
	skipped  uint64 // live rows left out by Skip
	took     time.Duration
}

// NewPlan checks the query, copies its vectors and decides how to search, without searching. Errors are [ArgumentError], [QueryError],
// [IndexError], [SegmentError] and [CoverageError], those of package binding ([binding.ErrClosed], [binding.ErrIO], ...), and that of ctx.
func NewPlan(ctx context.Context, ds *binding.Dataset, q Query, o Options) (*Plan, error) {
	if ds == nil {
		return nil, &ArgumentError{Name: "dataset", Reason: "it is nil; open it first"}
	}
	return newPlan(ctx, ds, q, o)
}

// made tells a plan of [NewPlan] from nil and from the zero value, which have nothing to search.
func (p *Plan) made() bool { return p != nil && p.catalog != nil }

// Index gives the name of the index that the plan searches, empty for a flat search, and why that one or none.
func (p *Plan) Index() (name, why string) {
	if !p.made() {
		return "", notMade
	}
	if x := p.choice.layout; x != nil {
		name = x.index.Name
	}
	return name, p.choice.why(&p.query, p.options.IndexName)
}

const notMade = "the plan is empty; make it with NewPlan"

func newPlan(ctx context.Context, ds native, q Query, o Options) (*Plan, error) {
	start := time.Now()
	if ctx.Err() != nil {
		return nil, ended(ctx, "plan")
	}
	if err := q.validate(); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &Plan{ds: ds, query: q, options: o, executor: o.Executor, uri: ds.URI(), version: ds.Version()}
	if p.executor == nil {
		p.executor = localExecutor{ds}
	}
	if err := p.readDataset(ctx); err != nil {
		return nil, err
	}
	if err := p.takeVectors(); err != nil {
		return nil, err
	}
	if err := p.settleIndex(); err != nil {
		return nil, err
	}
	if err := p.checkFilter(ctx); err != nil {
		return nil, err
	}
	p.sizes = q.sizesFor(p.catalog.liveRows)
	if err := p.decide(ctx); err != nil {
		return nil, err
	}
	p.took = time.Since(start)
	p.log(ctx)
	return p, nil
}

// readDataset asks the handle for what it knows: warm, that is no more than looking it up.
func (p *Plan) readDataset(ctx context.Context) error {
	description, err := p.ds.Describe(ctx)
	if err != nil {
		return fmt.Errorf("distributed: describe: %w", err)
	}
	p.catalog = catalogOf(description)
	if p.column, err = p.ds.Column(ctx, p.query.Column); err != nil {
		return describeColumn(p.query.Column, err)
	}
	p.open = p.openOptions()
	if len(p.query.Columns) == 0 {
		return nil
	}
	schema, err := p.ds.Schema()
	if err != nil {
		return fmt.Errorf("distributed: schema: %w", err)
	}
	return checkColumns(p.query.Columns, schema)
}

// checkFilter finds here what every task would fail with. The native core is asked once for each filter.
func (p *Plan) checkFilter(ctx context.Context) error {
	filter := p.query.Filter
	if filter == "" || p.catalog.isChecked(filter) {
		return nil
	}
	err := p.ds.CheckFilter(ctx, p.query.Column, filter)
	var native *binding.Error
	switch {
	case errors.As(err, &native) && native.Code == binding.CodeInvalidArgument:
		return &ArgumentError{Name: "Filter", Reason: strings.TrimPrefix(native.Message, "filter "), Err: err}
	case err != nil:
		return fmt.Errorf("distributed: check filter: %w", err)
	}
	p.catalog.setChecked(filter)
	return nil
}

// settleIndex chooses the index and with it the metric, and leaves out queries that have no answer under it.
func (p *Plan) settleIndex() error {
	q := &p.query
	if q.Metric != binding.MetricUnset {
		if err := checkMetric(q.Metric, p.column); err != nil {
			return err
		}
	}
	var err error
	if p.choice, err = chooseIndex(p.catalog, p.column, q, p.options.IndexName); err != nil {
		return err
	}
	p.metric = resolveMetric(q, p.choice.layout, p.column)
	if err := checkMetric(p.metric, p.column); err != nil {
		return err
	}
	if p.metric == binding.Cosine {
		p.vectors, p.ids, err = withoutDirection(p.vectors)
	}
	return err
}

// takeVectors copies everything of the query that the caller may change later.
func (p *Plan) takeVectors() error {
	vectors, err := p.query.Vectors.copyFor(p.column)
	if err != nil {
		return err
	}
	p.vectors, p.queries = vectors, vectors.Queries
	p.query.Vectors = Vectors{}
	p.query.Columns = append([]string(nil), p.query.Columns...)
	p.query.SearchEffort = clonePointer(p.query.SearchEffort)
	p.query.DistanceMin = clonePointer(p.query.DistanceMin)
	p.query.DistanceMax = clonePointer(p.query.DistanceMax)
	return nil
}

func clonePointer[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

// decide checks coverage, splits the search and makes the tasks.
func (p *Plan) decide(ctx context.Context) error {
	x := p.choice.layout
	flat, err := p.flatFragments()
	if err != nil {
		return err
	}
	searched := liveRows(flat)
	if x != nil {
		searched += x.covered
	}
	p.skipped = p.catalog.liveRows - searched
	if searched == 0 || p.vectors.Queries == 0 || p.query.Offset >= p.sizes.want {
		p.shape = shape{strategy: Single, reasons: []string{"there is nothing to search"}}
		return nil
	}
	d := demand{
		queries: p.vectors.Queries, flat: len(flat), local: p.options.local(), workers: p.options.workers(), maxTasks: p.options.MaxTasks,
	}
	if x != nil && x.covered > 0 { // an index that covers nothing has no part in the search
		d.units = len(x.units)
		d.whole = p.staysWhole(x)
	}
	if p.wantsDirect(d) {
		if err := p.askDirect(ctx); err != nil {
			return err
		}
		d.direct = p.eligible.Direct
	}
	p.shape = d.split(p.options.Strategy)
	if err := p.checkEF(); err != nil {
		return err
	}
	p.makeTasks(flat)
	return nil
}

// flatFragments applies the policy for live rows that the index does not cover and gives the fragments to search without it.
func (p *Plan) flatFragments() ([]binding.Fragment, error) {
	x := p.choice.layout
	switch {
	case x == nil && (p.query.NoIndex || p.options.Unindexed != Skip):
		return p.catalog.fragments, nil
	case x == nil || p.options.Unindexed == Skip:
		return nil, nil
	case p.options.Unindexed == Scan:
		return x.uncovered, nil
	}
	return nil, x.requireCoverage(p.query.Column, p.catalog.liveRows)
}

// staysWhole says why the rows of an index must be searched by one task, empty when they need not.
func (p *Plan) staysWhole(x *indexLayout) string {
	switch {
	case p.monolithic(x):
		if x.noBitmap {
			return "a segment does not say which fragments it covers"
		}
		return strings.Join(p.catalog.monolithic, "; ")
	case p.column.Multivector:
		// Lance over-fetches for each vector of the query and adds up what it found, so both the candidates and, without
		// refinement, their scores depend on the segments searched together.
		return "candidates of a multivector search depend on the set of segments searched"
	}
	return ""
}

// monolithic says whether Lance alone knows how the segments and the fragments of the dataset belong together.
func (p *Plan) monolithic(x *indexLayout) bool { return x.noBitmap || len(p.catalog.monolithic) > 0 }

// checkEF refuses early what every HNSW segment would refuse.
func (p *Plan) checkEF() error {
	x := p.choice.layout
	needed := p.sizes.candidates
	if p.shape.parts() == 1 {
		needed = times(p.sizes.want, max(1, p.sizes.refine))
	}
	if x == nil || p.query.EF == 0 || p.query.EF >= needed || !strings.Contains(x.index.Type, "HNSW") {
		return nil
	}
	return &ArgumentError{Name: "EF", Reason: fmt.Sprintf("%d is less than the %d candidates a query needs (offset + k, times the refine factor)", p.query.EF, needed)}
}

// wantsDirect says whether the shape depends on the path the native core would take.
func (p *Plan) wantsDirect(d demand) bool {
	return p.options.Strategy == Auto && d.local && d.units > 0 && d.whole == "" && d.workers > 1 && p.options.MaxTasks != 1 && p.options.Path != binding.PathScanner
}
