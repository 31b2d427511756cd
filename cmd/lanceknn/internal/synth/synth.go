package synth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Latent dimensions and clusters of the space that vectors are drawn from.
const (
	Latent     = 16
	Clusters   = 200
	Categories = 100

	// blockRows is how many rows share one random stream: enough to make seeding cheap, few enough to spread over cores.
	blockRows = 4096
)

// Config names a table. All fields but Sorted must be set.
type Config struct {
	Rows int
	Dim  int
	Seed uint64
	// Sorted makes clusters follow the row order, so that fragments (and index segments) hold different clusters;
	// otherwise every cluster is spread over all of them.
	Sorted bool
}

// Space draws vectors. It is safe for concurrent use.
type Space struct {
	cfg     Config
	centres [Clusters][Latent]float64
	mixing  []float64 // Latent x Dim
}

// Random streams of one seed. Rows take the block's number from zero up, so these count from the top.
const (
	streamSpace   = math.MaxUint64
	streamQueries = math.MaxUint64 - 1
)

// New prepares the space of a table.
func New(cfg Config) (*Space, error) {
	if cfg.Rows < 1 || cfg.Dim < 1 {
		return nil, fmt.Errorf("cannot make %d rows of dimension %d: both must be at least 1", cfg.Rows, cfg.Dim)
	}
	s := &Space{cfg: cfg, mixing: make([]float64, Latent*cfg.Dim)}
	r := rand.New(rand.NewPCG(cfg.Seed, streamSpace))
	for c := range s.centres {
		for l := range s.centres[c] {
			s.centres[c][l] = 1.5 * r.NormFloat64()
		}
	}
	for i := range s.mixing {
		s.mixing[i] = r.NormFloat64() / math.Sqrt(Latent)
	}
	return s, nil
}

// draw fills x with a vector of a cluster.
func (s *Space) draw(r *rand.Rand, cluster int, x []float32, sum []float64) {
	clear(sum)
	for l := range Latent {
		z := s.centres[cluster][l] + 0.7*r.NormFloat64()
		row := s.mixing[l*s.cfg.Dim : (l+1)*s.cfg.Dim]
		for d, w := range row {
			sum[d] += z * w
		}
	}
	for d := range x {
		x[d] = float32(math.Tanh(sum[d]) + 0.02*r.NormFloat64())
	}
}

// Queries draws n vectors of the same space that are not rows of the table, as n x Dim values.
func (s *Space) Queries(n int) []float32 {
	r := rand.New(rand.NewPCG(s.cfg.Seed, streamQueries))
	out, sum := make([]float32, n*s.cfg.Dim), make([]float64, s.cfg.Dim)
	for i := range n {
		s.draw(r, r.IntN(Clusters), out[i*s.cfg.Dim:(i+1)*s.cfg.Dim], sum)
	}
	return out
}

// Block is consecutive rows of the table.
type Block struct {
	First      int
	Categories []int32
	Titles     []string
	Vectors    []float32 // len(Categories) x Dim
}

// Blocks is how many blocks the table has.
func (s *Space) Blocks() int { return (s.cfg.Rows + blockRows - 1) / blockRows }

// Block makes the i-th block.
func (s *Space) Block(i int) Block {
	first := i * blockRows
	rows := min(blockRows, s.cfg.Rows-first)
	r := rand.New(rand.NewPCG(s.cfg.Seed, uint64(i)))
	b := Block{
		First:      first,
		Categories: make([]int32, rows),
		Titles:     make([]string, rows),
		Vectors:    make([]float32, rows*s.cfg.Dim),
	}
	sum := make([]float64, s.cfg.Dim)
	for j := range rows {
		cluster := r.IntN(Clusters)
		if s.cfg.Sorted {
			cluster = int(int64(first+j) * Clusters / int64(s.cfg.Rows))
		}
		b.Categories[j] = r.Int32N(Categories)
		b.Titles[j] = title(r, first+j)
		s.draw(r, cluster, b.Vectors[j*s.cfg.Dim:(j+1)*s.cfg.Dim], sum)
	}
	return b
}

var (
	adjectives = [...]string{"amber", "brief", "calm", "distant", "early", "faint", "gentle", "hidden", "late", "narrow", "plain", "quiet"}
	nouns      = [...]string{"bridge", "canyon", "delta", "field", "garden", "harbour", "island", "meadow", "orchard", "river", "summit", "valley"}
)

func title(r *rand.Rand, row int) string {
	return fmt.Sprintf("%s %s %d", adjectives[r.IntN(len(adjectives))], nouns[r.IntN(len(nouns))], row)
}

// Schema is the table's: id int64 (the row's number), category int32 (0-99), title string, vec of Dim float32.
func (s *Space) Schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "category", Type: arrow.PrimitiveTypes.Int32},
		{Name: "title", Type: arrow.BinaryTypes.String},
		{Name: "vec", Type: arrow.FixedSizeListOf(int32(s.cfg.Dim), arrow.PrimitiveTypes.Float32)},
	}, nil)
}

// Reader streams the table, a record at a time and no record across a multiple of rowsPerFragment rows. progress, if not
// nil, is told the rows of each record as it is handed out.
func (s *Space) Reader(rowsPerFragment int, progress func(rows int)) array.RecordReader {
	r := &reader{space: s, schema: s.Schema(), perFragment: rowsPerFragment, progress: progress}
	r.refs.Store(1)
	return r
}

type reader struct {
	space       *Space
	schema      *arrow.Schema
	perFragment int
	progress    func(int)
	refs        atomic.Int64

	block Block
	ahead []chan Block
	next  int // the block after this one
	row   int // of the table
	rec   arrow.Record
}

// workers prepare blocks while earlier ones are written.
const workers = 2

func (r *reader) Schema() *arrow.Schema { return r.schema }
func (r *reader) Record() arrow.Record  { return r.rec }
func (r *reader) Err() error            { return nil }
func (r *reader) Retain()               { r.refs.Add(1) }

func (r *reader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
	}
}

func (r *reader) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

func (r *reader) Next() bool {
	r.drop()
	if r.row >= r.space.cfg.Rows {
		return false
	}
	if r.row >= r.block.First+len(r.block.Categories) {
		r.block = r.take()
	}
	from := r.row - r.block.First
	to := min(len(r.block.Categories), from+r.perFragment-r.row%r.perFragment)
	r.rec = r.record(from, to)
	r.row += to - from
	if r.progress != nil {
		r.progress(to - from)
	}
	return true
}

// take returns the next block and has the ones after it made in the background.
func (r *reader) take() Block {
	for len(r.ahead) <= workers && r.next < r.space.Blocks() {
		i, c := r.next, make(chan Block, 1)
		r.next++
		r.ahead = append(r.ahead, c)
		go func() { c <- r.space.Block(i) }()
	}
	b := <-r.ahead[0]
	r.ahead = r.ahead[1:]
	return b
}

func (r *reader) record(from, to int) arrow.Record {
	mem := memory.DefaultAllocator
	b := array.NewRecordBuilder(mem, r.schema)
	defer b.Release()
	b.Reserve(to - from)
	vectors := b.Field(3).(*array.FixedSizeListBuilder)
	for j := from; j < to; j++ {
		b.Field(0).(*array.Int64Builder).Append(int64(r.block.First + j))
		b.Field(1).(*array.Int32Builder).Append(r.block.Categories[j])
		b.Field(2).(*array.StringBuilder).Append(r.block.Titles[j])
		vectors.Append(true)
	}
	dim := r.space.cfg.Dim
	vectors.ValueBuilder().(*array.Float32Builder).AppendValues(r.block.Vectors[from*dim:to*dim], nil)
	return b.NewRecord()
}

// Vectors makes all rows' vectors at once, on all of the given workers.
func (s *Space) Vectors(workers int) []float32 {
	out := make([]float32, s.cfg.Rows*s.cfg.Dim)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < s.Blocks(); i = int(next.Add(1)) - 1 {
				b := s.Block(i)
				copy(out[b.First*s.cfg.Dim:], b.Vectors)
			}
		})
	}
	wg.Wait()
	return out
}

// FragmentRows divides the table into exactly n fragments of equal size, save for a smaller last one.
func FragmentRows(rows, n int) (int, error) {
	if n < 1 || n > rows {
		return 0, fmt.Errorf("cannot divide %d rows into %d fragments", rows, n)
	}
	per := (rows + n - 1) / n
	if got := (rows + per - 1) / per; got != n {
		return 0, fmt.Errorf("cannot divide %d rows into %d equal fragments: %d would hold them all", rows, n, got)
	}
	return per, nil
}
