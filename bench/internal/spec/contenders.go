package spec

import "fmt"

// pylanceDefaults is pylance in an environment that sets nothing, beside the one with the stated thread budget.
const pylanceDefaults = "pylance, environment unset"

func ptr(v float64) *float64 { return &v }

// pylanceSingle lists pylance at every query_parallelism that can matter on the machine's cores. A lower floor records pylance's own defaults
// where they miss the scenario's recall, so that there is something to compare with.
func pylanceSingle(floor *float64) []Contender {
	var list []Contender
	for _, parallelism := range []int{0, 1, 2, -1} {
		list = append(list, Contender{
			Name: fmt.Sprintf("pylance query_parallelism=%d", parallelism), Engine: Pylance, Reference: true,
			QueryParallelism: parallelism, RecallFloor: floor,
		})
	}
	return append(list, Contender{
		Name: pylanceDefaults, Engine: Pylance, Reference: true, RecallFloor: floor, Environment: map[string]string{"LANCE_CPU_THREADS": ""},
	})
}

// pylanceMatrix lists pylance's ways to answer a matrix.
func pylanceMatrix() []Contender {
	return []Contender{
		{Name: "pylance matrix", Engine: Pylance, Reference: true},
		{Name: pylanceDefaults, Engine: Pylance, Reference: true, Environment: map[string]string{"LANCE_CPU_THREADS": ""}},
		{Name: "pylance one by one, 2 threads", Engine: Pylance, Reference: true, OneByOne: true, Clients: 2},
	}
}

// strategies lists this library's: the default, each fixed one, and Lance's Scanner underneath, which probes as pylance does and so gets its floor.
func strategies(scannerFloor *float64) []Contender {
	return []Contender{
		{Name: "lanceknn auto", Engine: LanceKNN, Strategy: "auto", Default: true},
		{Name: "lanceknn single", Engine: LanceKNN, Strategy: "single"},
		{Name: "lanceknn segments", Engine: LanceKNN, Strategy: "segments"},
		{Name: "lanceknn queries", Engine: LanceKNN, Strategy: "queries"},
		{Name: "lanceknn grid", Engine: LanceKNN, Strategy: "grid"},
		{Name: "lanceknn single, scanner", Engine: LanceKNN, Strategy: "single", Path: "scanner", RecallFloor: scannerFloor},
	}
}

// everyone lists every contender for one query. A floor lower than the scenario's is for those that probe by Lance's own default.
func everyone(lanceFloor *float64) []Contender {
	return join(pylanceSingle(lanceFloor), strategies(lanceFloor))
}

// nativeCall is the search that lies under the library's, for telling what Go adds to it.
func nativeCall() Contender {
	return Contender{Name: "lanceknn native call", Engine: LanceKNN, Strategy: Native}
}

func defaultOnly() Contender {
	return Contender{Name: "lanceknn auto", Engine: LanceKNN, Strategy: "auto", Default: true}
}

func pylanceOnly() Contender {
	return Contender{Name: "pylance", Engine: Pylance, Reference: true}
}

// filterPair compares the defaults under a filter.
func filterPair() []Contender {
	reference := pylanceOnly()
	reference.RecallFloor = ptr(filterFloor)
	return []Contender{reference, defaultOnly()}
}

// callers lists both engines at each number of concurrent callers; pylance's best is what the ratio is taken to.
func callers(counts ...int) []Contender {
	var list []Contender
	for _, n := range counts {
		list = append(list,
			Contender{Name: fmt.Sprintf("pylance, %d clients", n), Engine: Pylance, Reference: true, Clients: n},
			Contender{Name: fmt.Sprintf("lanceknn auto, %d clients", n), Engine: LanceKNN, Strategy: "auto", Default: n == 8, Clients: n},
		)
	}
	return list
}

// recallCurve lists both engines over their knobs. Points far below any useful recall are part of a curve, so its floor is zero.
func recallCurve() []Contender {
	var list []Contender
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		list = append(list,
			Contender{Name: fmt.Sprintf("pylance nprobes=%d", n), Engine: Pylance, NProbes: n},
			Contender{Name: fmt.Sprintf("lanceknn nprobes=%d", n), Engine: LanceKNN, NProbes: n, Strategy: "auto"})
	}
	list = append(list, Contender{Name: "pylance defaults", Engine: Pylance, Reference: true})
	for _, effort := range []float64{0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9} {
		list = append(list, Contender{
			Name: fmt.Sprintf("lanceknn search_effort=%g", effort), Engine: LanceKNN, Strategy: "auto", Probing: "shared", SearchEffort: ptr(effort),
		})
	}
	return append(list, Contender{Name: "lanceknn defaults", Engine: LanceKNN, Strategy: "auto", Default: true})
}

// tunedText lists the probes of both engines around a recall of 0.99 on sentence embeddings.
func tunedText() []Contender {
	var list []Contender
	for _, n := range []int{24, 32, 48, 64} {
		list = append(list, Contender{Name: fmt.Sprintf("pylance nprobes=%d", n), Engine: Pylance, NProbes: n, Reference: true})
	}
	return append(list, Contender{
		Name: "lanceknn search_effort=0.6", Engine: LanceKNN, Strategy: "auto", Probing: "shared", SearchEffort: ptr(0.6), Default: true,
	})
}

// tunedTextCallers has callers at once ask for the recall that this library's defaults reach on sentence embeddings.
func tunedTextCallers() []Contender {
	list := callers(2, 4, 8, 16)
	for i := range list {
		if c := &list[i]; c.Reference {
			c.NProbes = 48
			c.Name = fmt.Sprintf("pylance nprobes=%d, %d clients", c.NProbes, c.Clients)
		}
	}
	return list
}

func join(lists ...[]Contender) []Contender {
	var all []Contender
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
