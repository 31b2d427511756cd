package spec

import (
	"fmt"
	"slices"
)

const (
	floor = 0.99
	// followingFloor lets pylance's own default, which reaches about 0.91 on segments that follow clusters, be recorded as the thing to beat.
	followingFloor = 0.8
	// filterFloor does the same for selective filters, under which pylance's default stops before it has found every neighbour.
	filterFloor = 0.3
	// textFloor is for embeddings whose neighbours are spread over most partitions: Lance's default reaches 0.95 there.
	textFloor = 0.98
)

// Profiles returns the profile of that name.
func Profiles(name string) (Profile, error) {
	switch name {
	case "quick":
		return quick(), nil
	case "full":
		return full(), nil
	case "smoke":
		return smoke(), nil
	case "calibrate":
		return calibrate(), nil
	}
	return Profile{}, fmt.Errorf("profile %q is unknown: use quick, full, smoke or calibrate", name)
}

func synthetic(name string, rows, dim, segments int, layout string, index Index, change ...func(*Data)) Data {
	d := Data{
		Name: name, Source: "clusters", Rows: rows, Dim: dim, Latent: 16, Clusters: 200, Seed: 11, Segments: segments,
		FragmentsPerSegment: 1, Layout: layout, Sizes: Even, Index: index, Metric: "l2", Queries: 200, Depth: 48, Filters: []int{},
	}
	for _, f := range change {
		f(&d)
	}
	return d
}

func filtered(d *Data)            { d.Filters = []int{500, 10, 1} }
func skewed(d *Data)              { d.Sizes = Skewed }
func deep(d *Data)                { d.Depth = 1100 }
func manyFragments(d *Data)       { d.FragmentsPerSegment = 8 }
func metric(m string) func(*Data) { return func(d *Data) { d.Metric = m } }

var (
	flat = Index{Type: "IVF_FLAT"}
	pq   = Index{Type: "IVF_PQ", SubVectors: 16}
)

// rounds of the two sizes of profile.
type effort struct{ single, matrix, throughput, cold int }

func single(id, title, data string, s Search, rounds int, contenders []Contender) Scenario {
	return Scenario{
		ID: id, Title: title, Kind: Single, Data: data, Search: s, Contenders: contenders, Queries: 200, Block: 10, LeadIn: 3, Rounds: rounds, RecallFloor: floor,
	}
}

func withMatrix(id, title, data string, s Search, rounds int) Scenario {
	sc := single(id, title, data, s, rounds, join(pylanceMatrix(), strategies(nil)))
	sc.Kind, sc.Block, sc.LeadIn = Matrix, 200, 0
	return sc
}

func withCallers(id, title, data string, s Search, rounds int) Scenario {
	sc := single(id, title, data, s, rounds, callers(1, 2, 4, 8, 16))
	sc.Kind, sc.Block, sc.LeadIn = Throughput, 200, 0
	return sc
}

// targets lists the scenarios of the target table. Their ids are what the report's targets name.
func targets(e effort, prefix string) []Scenario {
	k10 := Search{K: 10}
	following := single("single-32-following", "one query, defaults, 32 segments that follow clusters", prefix+"-32-following", k10, e.single,
		everyone(ptr(followingFloor)))
	tuned := single("tuned-32-following", "one query, 32 segments that follow clusters, pylance at the probes that reach the recall", prefix+"-32-following",
		k10, e.single, []Contender{
			{Name: "pylance nprobes=10", Engine: Pylance, NProbes: 10, Reference: true},
			{Name: "pylance nprobes=12", Engine: Pylance, NProbes: 12, Reference: true},
			{Name: "pylance nprobes=16", Engine: Pylance, NProbes: 16, Reference: true},
			defaultOnly(),
		})
	cold := Scenario{
		ID: "storage-30ms", Title: "30 ms storage, cold caches, 32 segments that follow clusters", Kind: ColdStorage, Data: prefix + "-32-following", Search: k10,
		Contenders: []Contender{
			{Name: "pylance", Engine: Pylance, Reference: true, RecallFloor: ptr(0.8)},
			{Name: "pylance query_parallelism=-1", Engine: Pylance, Reference: true, QueryParallelism: -1, RecallFloor: ptr(0.8)},
			defaultOnly(),
		},
		Queries: e.cold, Block: 1, Rounds: 1, RecallFloor: 0.95, LatencyMS: 30,
	}
	start := Scenario{
		ID: "cold-process", Title: "new process: start, open, first query; files in the page cache", Kind: ColdProcess, Data: prefix + "-8-mixed", Search: k10,
		Contenders: []Contender{pylanceOnly(), defaultOnly()}, Queries: e.cold, Block: 1, Rounds: 1, RecallFloor: 0.95,
	}
	ray := single("lance-ray", "one query, 8 mixed segments, lance-ray with a warm pool of 2 workers", prefix+"-8-mixed", k10, 2, []Contender{
		{Name: "lance-ray, 2 workers", Engine: LanceRay, Reference: true}, {Name: "pylance", Engine: Pylance}, defaultOnly(),
	})
	ray.Queries = 50
	curve := func(id, data string) Scenario {
		sc := single(id, "latency against recall, "+data, data, k10, max(1, e.single/2), recallCurve())
		sc.RecallFloor, sc.Curve = 0, "recall"
		return sc
	}
	hnsw := Search{K: 10, RefineFactor: 5, EF: 150}
	list := []Scenario{
		single("single-1", "one query, defaults, 1 segment", prefix+"-1", k10, e.single, everyone(nil)),
		single("single-8-mixed", "one query, defaults, 8 mixed segments", prefix+"-8-mixed", k10, e.single,
			join(everyone(nil), []Contender{nativeCall()})),
		single("single-32-mixed", "one query, defaults, 32 mixed segments", prefix+"-32-mixed", k10, e.single, everyone(nil)),
		following,
		tuned,
		single("probes-8-mixed", "one query, nprobes=8 per segment, 8 mixed segments", prefix+"-8-mixed", Search{K: 10, NProbes: 8}, e.single,
			everyone(nil)),
		withMatrix("matrix-8-mixed", "200-query matrix, defaults, 8 mixed segments", prefix+"-8-mixed", k10, e.matrix),
		withMatrix("matrix-probes-8-mixed", "200-query matrix, nprobes=8 per segment, 8 mixed segments", prefix+"-8-mixed", Search{K: 10, NProbes: 8}, e.matrix),
		withCallers("throughput-8-mixed", "concurrent callers, defaults, 8 mixed segments", prefix+"-8-mixed", k10, e.throughput),
		single("filter-1-8-mixed", "repeated 1 % filter, no scalar index, 8 mixed segments", prefix+"-8-mixed", Search{K: 10, Filter: 10}, e.single,
			everyone(ptr(filterFloor))),
		single("filter-1-indexed-8-mixed", "repeated 1 % filter, bitmap index, 8 mixed segments", prefix+"-8-mixed", Search{K: 10, Filter: 10, FilterIndex: true},
			e.single, filterPair()),
		single("pq-8-mixed", "IVF_PQ, refine 10, two columns fetched, 8 mixed segments", prefix+"-pq-8-mixed",
			Search{K: 10, RefineFactor: 10, Columns: []string{"id", "title"}}, e.single, everyone(nil)),
		single("hnsw-sq-8-mixed", "IVF_HNSW_SQ, refine 5, ef 150, 8 mixed segments", prefix+"-hnsw-sq-8-mixed", hnsw, e.single,
			everyone(nil)),
		curve("curve-8-mixed", prefix+"-8-mixed"),
		curve("curve-32-following", prefix+"-32-following"),
		cold,
		start,
		ray,
	}
	return list
}

func quick() Profile {
	return Profile{
		Name: "quick",
		Data: []Data{
			synthetic("q128-1", 400_000, 128, 1, Mixed, flat, manyFragments),
			synthetic("q128-8-mixed", 400_000, 128, 8, Mixed, flat, filtered),
			synthetic("q128-32-mixed", 400_000, 128, 32, Mixed, flat),
			synthetic("q128-32-following", 400_000, 128, 32, Following, flat),
			synthetic("q128-pq-8-mixed", 400_000, 128, 8, Mixed, pq),
			synthetic("q128-hnsw-sq-8-mixed", 80_000, 128, 8, Mixed, Index{Type: "IVF_HNSW_SQ", Partitions: 1}),
		},
		Scenarios: targets(effort{single: 2, matrix: 9, throughput: 3, cold: 5}, "q128"),
	}
}

// calibrate has data sets for choosing the default of the probe rule, and no scenarios: what the rule must cope with, each small enough to sweep.
func calibrate() Profile {
	return Profile{Name: "calibrate", Data: []Data{
		synthetic("c128-1", 200_000, 128, 1, Mixed, flat, manyFragments, deep),
		synthetic("c128-8-mixed", 200_000, 128, 8, Mixed, flat, filtered, deep),
		synthetic("c128-8-skewed", 200_000, 128, 8, Mixed, flat, skewed, deep),
		synthetic("c128-32-mixed", 200_000, 128, 32, Mixed, flat, deep),
		synthetic("c128-64-mixed", 200_000, 128, 64, Mixed, flat, deep),
		synthetic("c128-32-following", 200_000, 128, 32, Following, flat, deep),
		synthetic("c128-32-following-skewed", 200_000, 128, 32, Following, flat, skewed, deep),
		synthetic("c128-8-cosine", 200_000, 128, 8, Mixed, flat, metric("cosine"), deep),
		synthetic("c128-32-following-cosine", 200_000, 128, 32, Following, flat, metric("cosine"), deep),
		synthetic("c128-8-dot", 200_000, 128, 8, Mixed, flat, metric("dot"), deep),
		synthetic("c128-32-following-dot", 200_000, 128, 32, Following, flat, metric("dot"), deep),
		synthetic("c128-pq-8-mixed", 200_000, 128, 8, Mixed, pq, deep),
		synthetic("c128-pq-32-following", 200_000, 128, 32, Following, pq, deep),
		synthetic("c768-8-mixed", 60_000, 768, 8, Mixed, flat, deep),
		synthetic("c768-32-following", 60_000, 768, 32, Following, flat, deep),
	}}
}

// smoke is the quick profile on tables small enough to try the harness itself.
func smoke() Profile {
	p := quick()
	p.Name = "smoke"
	for i := range p.Data {
		d := &p.Data[i]
		d.Name = "smoke-" + d.Name
		d.Rows, d.Clusters, d.Queries = 20_000, 50, 40
	}
	for i := range p.Scenarios {
		s := &p.Scenarios[i]
		s.Data = "smoke-" + s.Data
		s.Queries, s.Block, s.Rounds = min(s.Queries, 40), min(s.Block, 10), min(s.Rounds, 2)
		if s.Kind == Matrix || s.Kind == Throughput {
			s.Block = s.Queries
		}
		if s.Kind == ColdStorage || s.Kind == ColdProcess {
			s.Queries = 2
		}
	}
	return p
}

// full crosses what the targets hold fixed: size, dimension, segment count and sizes, layout, index kind, metric, k, filter, storage delay, real text.
func full() Profile {
	e := effort{single: 2, matrix: 9, throughput: 3, cold: 6}
	p := Profile{
		Name: "full",
		Data: []Data{
			synthetic("f128-1", 1_000_000, 128, 1, Mixed, flat, manyFragments),
			synthetic("f128-4-mixed", 400_000, 128, 4, Mixed, flat),
			synthetic("f128-8-mixed", 2_000_000, 128, 8, Mixed, flat, filtered, deep),
			synthetic("f128-8-skewed", 400_000, 128, 8, Mixed, flat, skewed),
			synthetic("f128-32-mixed", 1_000_000, 128, 32, Mixed, flat),
			synthetic("f128-32-following", 2_000_000, 128, 32, Following, flat, deep),
			synthetic("f128-32-following-skewed", 400_000, 128, 32, Following, flat, skewed),
			synthetic("f128-64-mixed", 1_000_000, 128, 64, Mixed, flat),
			synthetic("f128-8-cosine", 400_000, 128, 8, Mixed, flat, metric("cosine")),
			synthetic("f128-8-dot", 400_000, 128, 8, Mixed, flat, metric("dot")),
			synthetic("f128-pq-8-mixed", 1_000_000, 128, 8, Mixed, pq),
			synthetic("f128-sq-8-mixed", 400_000, 128, 8, Mixed, Index{Type: "IVF_SQ"}),
			synthetic("f128-rq-8-mixed", 400_000, 128, 8, Mixed, Index{Type: "IVF_RQ"}),
			synthetic("f128-hnsw-flat-8-mixed", 200_000, 128, 8, Mixed, Index{Type: "IVF_HNSW_FLAT", Partitions: 1}),
			synthetic("f128-hnsw-sq-8-mixed", 200_000, 128, 8, Mixed, Index{Type: "IVF_HNSW_SQ", Partitions: 1}),
			synthetic("f128-hnsw-pq-8-mixed", 200_000, 128, 8, Mixed, Index{Type: "IVF_HNSW_PQ", Partitions: 1, SubVectors: 16}),
			synthetic("f768-8-mixed", 300_000, 768, 8, Mixed, flat, filtered),
			synthetic("f768-32-following", 300_000, 768, 32, Following, flat),
			synthetic("f768-pq-8-mixed", 300_000, 768, 8, Mixed, Index{Type: "IVF_PQ", SubVectors: 96}),
			synthetic("f1536-8-mixed", 150_000, 1536, 8, Mixed, flat),
			synthetic("text384-8-mixed", 110_000, 384, 8, Mixed, flat, text, filtered),
			synthetic("text384-32-following", 110_000, 384, 32, Following, flat, text),
			synthetic("text384-pq-8-mixed", 110_000, 384, 8, Mixed, Index{Type: "IVF_PQ", SubVectors: 48}, text),
		},
		Scenarios: targets(e, "f128"),
	}
	add := func(s Scenario) { p.Scenarios = append(p.Scenarios, s) }
	plain := func(data string, s Search, contenders []Contender) {
		add(single(scenarioID("single", data, s), "one query, "+data, data, s, e.single, contenders))
	}
	both := everyone(nil)
	for _, data := range []string{
		"f128-4-mixed", "f128-8-skewed", "f128-64-mixed", "f128-8-cosine", "f128-8-dot", "f768-8-mixed", "f1536-8-mixed",
	} {
		plain(data, Search{K: 10}, both)
	}
	loose := everyone(ptr(0.5))
	for _, data := range []string{"f128-32-following-skewed", "f768-32-following"} {
		plain(data, Search{K: 10}, loose)
	}
	for _, data := range []string{"text384-8-mixed", "text384-32-following"} {
		add(ofText(single(scenarioID("single", data, Search{K: 10}), "one query, "+data, data, Search{K: 10}, e.single, everyone(nil))))
		add(single("tuned-"+data, "one query, "+data+", both with the probes that reach the recall", data, Search{K: 10}, e.single, tunedText()))
	}
	for _, k := range []int{1, 100, 1000} {
		plain("f128-8-mixed", Search{K: k}, both)
		plain("f128-32-following", Search{K: k}, loose)
	}
	for _, data := range []string{"f128-sq-8-mixed", "f128-rq-8-mixed", "f128-hnsw-flat-8-mixed", "f128-hnsw-pq-8-mixed", "f768-pq-8-mixed", "text384-pq-8-mixed"} {
		s := Search{K: 10, RefineFactor: 10}
		if d, _ := p.Find(data); slices.Contains([]string{"IVF_HNSW_FLAT", "IVF_HNSW_PQ"}, d.Index.Type) {
			s.EF = 150
		}
		sc := single(scenarioID("single", data, s), "one query, "+data, data, s, e.single, everyone(nil))
		if data == "text384-pq-8-mixed" {
			sc = ofText(sc)
		}
		add(sc)
	}
	for _, data := range []string{"f128-8-mixed", "f768-8-mixed", "text384-8-mixed"} {
		for _, threshold := range []int{500, 10, 1} {
			for _, indexed := range []bool{false, true} {
				s := Search{K: 10, Filter: threshold, FilterIndex: indexed}
				if data == "f128-8-mixed" && threshold == 10 {
					continue // among the targets already
				}
				plain(data, s, filterPair())
			}
		}
	}
	for _, data := range []string{"f768-8-mixed", "f1536-8-mixed", "text384-8-mixed"} {
		matrix := withMatrix(scenarioID("matrix", data, Search{K: 10}), "200-query matrix, "+data, data, Search{K: 10}, e.matrix)
		callers := withCallers(scenarioID("throughput", data, Search{K: 10}), "concurrent callers, "+data, data, Search{K: 10}, e.throughput)
		if data == "text384-8-mixed" {
			matrix, callers = ofText(matrix), ofText(callers)
			tuned := callers
			tuned.ID, tuned.Title = "tuned-throughput-"+data, "concurrent callers, "+data+", both with the probes that reach the recall"
			tuned.Contenders, tuned.RecallFloor = tunedTextCallers(), floor
			add(tuned)
		}
		add(matrix)
		add(callers)
		c := single("curve-"+data, "latency against recall, "+data, data, Search{K: 10}, e.single, recallCurve())
		c.RecallFloor, c.Curve = 0, "recall"
		add(c)
	}
	for i := range p.Scenarios {
		if p.Scenarios[i].ID != "storage-30ms" {
			continue
		}
		ten := p.Scenarios[i]
		ten.ID, ten.Title, ten.LatencyMS = "storage-10ms", "10 ms storage, cold caches, 32 segments that follow clusters", 10
		add(ten)
		mixed := p.Scenarios[i]
		mixed.ID, mixed.Title, mixed.Data = "storage-30ms-8-mixed", "30 ms storage, cold caches, 8 mixed segments", "f128-8-mixed"
		add(mixed)
		break
	}
	return p
}

// ofText gives a scenario on sentence embeddings its floor, and records the references, and what probes as they do, well below it.
func ofText(sc Scenario) Scenario {
	sc.RecallFloor = textFloor
	for i := range sc.Contenders {
		if c := &sc.Contenders[i]; c.Reference || c.Path == "scanner" {
			c.RecallFloor = ptr(0.5)
		}
	}
	return sc
}

// text turns a data set into one of sentence embeddings.
func text(d *Data) { d.Source = "text" }

func scenarioID(kind, data string, s Search) string {
	id := fmt.Sprintf("%s-%s-k%d", kind, data, s.K)
	if s.Filter != 0 {
		id += fmt.Sprintf("-cat%d", s.Filter)
		if s.FilterIndex {
			id += "-indexed"
		}
	}
	return id
}
