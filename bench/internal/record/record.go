// Package record is the benchmark's output: one JSON value per line, each with its type.
package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// Types of line.
const (
	TypeRun         = "run"
	TypeScenario    = "scenario"
	TypeSample      = "sample"
	TypeRejection   = "rejection"
	TypeUnavailable = "unavailable"
	TypeFailure     = "failure"
)

// Run opens each invocation of the benchmark.
type Run struct {
	Type        string            `json:"type"`
	ID          string            `json:"run"`
	Started     string            `json:"started"`
	Profile     string            `json:"profile"`
	Environment host.Environment  `json:"environment"`
	Sources     host.Sources      `json:"sources"`
	Library     host.Library      `json:"library"`
	BuildInfo   map[string]string `json:"build_info"`
}

// Budget is what a contender was allowed to use.
type Budget struct {
	Cores int `json:"cores"`
	// CPUThreads and IOThreads are the native pools' sizes; "default" where the environment was left unset.
	CPUThreads string `json:"cpu_threads"`
	IOThreads  string `json:"io_threads"`
	Clients    int    `json:"clients"`
	Workers    int    `json:"workers,omitempty"`
}

// Scenario is written last of a scenario's lines: its presence says that they are complete.
type Scenario struct {
	Type        string        `json:"type"`
	Run         string        `json:"run"`
	Scenario    spec.Scenario `json:"scenario"`
	Data        spec.Data     `json:"data"`
	DataHash    string        `json:"data_hash"`
	Version     uint64        `json:"version"`
	Fingerprint string        `json:"fingerprint"`
	Started     string        `json:"started"`
	Seconds     float64       `json:"seconds"`
	Foreign     host.Foreign  `json:"foreign"`
	// Quiet is false when others used so much of the machine that the figures should be taken again.
	Quiet bool `json:"quiet"`
}

// Sample is what one contender did in one scenario.
type Sample struct {
	Type      string            `json:"type"`
	Run       string            `json:"run"`
	Scenario  string            `json:"scenario"`
	Contender spec.Contender    `json:"contender"`
	Versions  map[string]string `json:"versions"`
	Budget    Budget            `json:"budget"`

	Recall float64 `json:"recall"`
	Floor  float64 `json:"recall_floor"`

	// DurationsNS are the raw durations, a list per round: of each query in the scenario's order, or of the whole matrix.
	DurationsNS [][]int64 `json:"durations_ns"`
	// WallNS is each round's time for all queries: what throughput is computed from.
	WallNS []int64 `json:"wall_ns"`
	// StartNS and OpenNS are, for cold scenarios, the time to start the process and to open the dataset before each sample.
	StartNS []int64 `json:"start_ns,omitempty"`
	OpenNS  []int64 `json:"open_ns,omitempty"`
	// NativeNS are the parts of DurationsNS spent inside the native library, where the engine tells.
	NativeNS [][]int64 `json:"native_ns,omitempty"`

	QueriesPerRound int     `json:"queries_per_round"`
	CPUSeconds      float64 `json:"cpu_seconds"`
	PeakRSSBytes    int64   `json:"peak_rss_bytes"` // of the process, which contenders of one engine and environment share
	Processes       int     `json:"processes"`

	// Per query, over all timed calls; absent where the engine cannot count. Requests and bytes of cold-storage scenarios are the server's own counts.
	BytesPerQuery      *float64 `json:"bytes_per_query,omitempty"`
	RequestsPerQuery   *float64 `json:"requests_per_query,omitempty"`
	PartitionsPerQuery *float64 `json:"partitions_per_query,omitempty"`
	SegmentsPerQuery   *float64 `json:"segments_per_query,omitempty"`
}

// Rejection replaces a sample whose answers were wrong or not good enough: it carries no performance figure.
type Rejection struct {
	Type      string         `json:"type"`
	Run       string         `json:"run"`
	Scenario  string         `json:"scenario"`
	Contender spec.Contender `json:"contender"`
	Recall    *float64       `json:"recall,omitempty"`
	Floor     float64        `json:"recall_floor"`
	Reason    string         `json:"reason"`
}

// Unavailable says that a contender could not be run on this machine at all.
type Unavailable struct {
	Type      string         `json:"type"`
	Run       string         `json:"run"`
	Scenario  string         `json:"scenario"`
	Contender spec.Contender `json:"contender"`
	Reason    string         `json:"reason"`
}

// Failure says that a scenario, or one contender in it, ended with an error.
type Failure struct {
	Type      string          `json:"type"`
	Run       string          `json:"run"`
	Scenario  string          `json:"scenario"`
	Contender *spec.Contender `json:"contender,omitempty"`
	Reason    string          `json:"reason"`
}

// Append writes lines to a file at once, so that an interrupted run leaves whole scenarios. A line that an interruption cut off is removed.
func Append(path string, lines ...any) error {
	var text bytes.Buffer
	for _, line := range lines {
		if err := json.NewEncoder(&text).Encode(line); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	end, err := wholeLines(file)
	if err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		_, err = file.WriteAt(text.Bytes(), end)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// wholeLines is the length of the file up to its last line end.
func wholeLines(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	block := make([]byte, 1<<16)
	for end := info.Size(); end > 0; {
		start := max(0, end-int64(len(block)))
		part := block[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return start + int64(at) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// File is the content of a results file.
type File struct {
	Runs      map[string]Run
	Scenarios []Completed // the latest complete result of each scenario, in the order of first appearance
}

// Completed is a scenario with all its lines.
type Completed struct {
	Scenario
	Samples      []Sample
	Rejections   []Rejection
	Unavailables []Unavailable
	Failures     []Failure
}

// Read loads a results file; one that does not exist is empty. Lines of a scenario without its closing line are dropped.
func Read(path string) (*File, error) {
	f := &File{Runs: map[string]Run{}}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var pending Completed
	reader := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return f, nil // a last line without its end was cut off by an interruption
		}
		if err != nil {
			return nil, err
		}
		if err := f.add(line, &pending); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
}

func (f *File) add(line []byte, pending *Completed) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	switch head.Type {
	case TypeRun:
		*pending = Completed{}
		var r Run
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		f.Runs[r.ID] = r
	case TypeSample:
		return appendLine(line, &pending.Samples)
	case TypeRejection:
		return appendLine(line, &pending.Rejections)
	case TypeUnavailable:
		return appendLine(line, &pending.Unavailables)
	case TypeFailure:
		return appendLine(line, &pending.Failures)
	case TypeScenario:
		if err := json.Unmarshal(line, &pending.Scenario); err != nil {
			return err
		}
		f.put(*pending)
		*pending = Completed{}
	default:
		return fmt.Errorf("unknown type %q", head.Type)
	}
	return nil
}

func appendLine[T any](line []byte, list *[]T) error {
	var value T
	if err := json.Unmarshal(line, &value); err != nil {
		return err
	}
	*list = append(*list, value)
	return nil
}

func (f *File) put(c Completed) {
	for i := range f.Scenarios {
		if f.Scenarios[i].Scenario.Scenario.ID == c.Scenario.Scenario.ID {
			f.Scenarios[i] = c
			return
		}
	}
	f.Scenarios = append(f.Scenarios, c)
}

// Find returns the scenario of that id.
func (f *File) Find(id string) *Completed {
	for i := range f.Scenarios {
		if f.Scenarios[i].Scenario.Scenario.ID == id {
			return &f.Scenarios[i]
		}
	}
	return nil
}

// Sample returns the sample of a contender, nil when it has none.
func (c *Completed) Sample(contender string) *Sample {
	for i := range c.Samples {
		if c.Samples[i].Contender.Name == contender {
			return &c.Samples[i]
		}
	}
	return nil
}
