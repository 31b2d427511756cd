// Package engine runs contenders, each in a process of its own, behind one protocol: a JSON request per line in, a JSON reply per line out.
// Calls are timed inside the process that makes them, so neither the pipe nor JSON is part of any duration.
package engine

import (
	"fmt"
	"math"
)

// Request asks a worker for one thing; Op says what.
type Request struct {
	Op string `json:"op"` // hello, load, open, close, run

	// load: the vectors of a query file, under a name.
	Set  string `json:"set,omitempty"`
	Path string `json:"path,omitempty"`
	Dim  int    `json:"dim,omitempty"`

	// open, close: a dataset handle, under a name.
	Handle         string            `json:"handle,omitempty"`
	URI            string            `json:"uri,omitempty"`
	Version        uint64            `json:"version,omitempty"`
	StorageOptions map[string]string `json:"storage_options,omitempty"`

	// run: the queries of a set, by number.
	Mode    string  `json:"mode,omitempty"` // single, matrix, throughput
	Queries []int   `json:"queries,omitempty"`
	Clients int     `json:"clients,omitempty"`
	K       int     `json:"k,omitempty"`
	Search  *Search `json:"search,omitempty"`
}

// Search is one engine-level search. The first group has the names of pylance's `nearest`; what is left out stays the engine's default.
type Search struct {
	Column           string   `json:"column"`
	K                int      `json:"k"`
	NProbes          int      `json:"nprobes,omitempty"`
	RefineFactor     int      `json:"refine_factor,omitempty"`
	EF               int      `json:"ef,omitempty"`
	QueryParallelism int      `json:"query_parallelism,omitempty"`
	SearchEffort     *float64 `json:"search_effort,omitempty"`
	Filter           string   `json:"filter,omitempty"`
	Columns          []string `json:"columns,omitempty"`

	Strategy string `json:"strategy,omitempty"`
	Path     string `json:"path,omitempty"`
	Probing  string `json:"probing,omitempty"`
}

// Result is the answer to one query, nearest first.
type Result struct {
	IDs       []uint64  `json:"ids"`
	Distances []float64 `json:"distances"`
}

// Farthest stands for an infinite distance, which JSON cannot say.
const Farthest = 1e300

// Add appends a row; a distance that is not a number is an error of the engine's.
func (r *Result) Add(id uint64, distance float32) error {
	if math.IsNaN(float64(distance)) {
		return fmt.Errorf("the distance of row %d is not a number", id)
	}
	r.IDs = append(r.IDs, id)
	r.Distances = append(r.Distances, min(float64(distance), Farthest))
	return nil
}

// Reply answers a request.
type Reply struct {
	Error string `json:"error,omitempty"`

	// hello
	Engine   string            `json:"engine,omitempty"`
	Versions map[string]string `json:"versions,omitempty"`
	PID      int               `json:"pid,omitempty"`

	// open
	Version uint64 `json:"version,omitempty"`

	// load: the vectors loaded
	Queries int `json:"queries,omitempty"`

	// run: one duration per query, or one for a matrix; results in the order of the queries
	DurationsNS []int64  `json:"durations_ns,omitempty"`
	WallNS      int64    `json:"wall_ns,omitempty"`
	CPUNS       int64    `json:"cpu_ns,omitempty"`
	Results     []Result `json:"results,omitempty"`
	BytesRead   *int64   `json:"bytes_read,omitempty"`
	Requests    *int64   `json:"requests,omitempty"`

	// NativeNS is the time per call inside the native library, where the engine can tell.
	NativeNS           []int64 `json:"native_ns,omitempty"`
	PartitionsSearched *int64  `json:"partitions_searched,omitempty"`
	SegmentsSearched   *int64  `json:"segments_searched,omitempty"`
	Explain            string  `json:"explain,omitempty"`
}
