package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

func contender(name, engine string, change ...func(*spec.Contender)) spec.Contender {
	c := spec.Contender{Name: name, Engine: engine}
	for _, f := range change {
		f(&c)
	}
	return c
}

func isReference(c *spec.Contender) { c.Reference = true }
func isDefault(c *spec.Contender)   { c.Default, c.Strategy = true, "auto" }

// steady is a sample whose queries take ms milliseconds, give or take a little.
func steady(scenario string, c spec.Contender, ms, recall float64) record.Sample {
	s := record.Sample{Type: record.TypeSample, Run: "r", Scenario: scenario, Contender: c, Recall: recall, QueriesPerRound: 20}
	for range 3 {
		var round []int64
		wall := int64(0)
		for q := range 20 {
			d := int64(ms * 1e6 * (1 + float64(q-10)/100))
			round, wall = append(round, d), wall+d
		}
		s.DurationsNS, s.WallNS = append(s.DurationsNS, round), append(s.WallNS, wall)
	}
	return s
}

func results(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "2026-01-01-quick.jsonl")
	data := spec.Data{Segments: 8, Dim: 128, Index: spec.Index{Type: "IVF_FLAT"}, Layout: spec.Mixed, Sizes: spec.Even, Metric: "l2"}
	end := func(id, kind, curve string) record.Scenario {
		return record.Scenario{
			Type: record.TypeScenario, Run: "r", Quiet: true, Data: data,
			Scenario: spec.Scenario{ID: id, Kind: kind, Curve: curve, Title: "a & b <" + id + ">", Search: spec.Search{K: 10}, Queries: 200},
		}
	}
	slow, fast := contender("pylance slow", spec.Pylance, isReference), contender("pylance fast", spec.Pylance, isReference)
	mine := contender("lanceknn auto", spec.LanceKNN, isDefault)
	fixed := contender("lanceknn grid", spec.LanceKNN, func(c *spec.Contender) { c.Strategy = "grid" })
	native := steady("single-8-mixed", contender("lanceknn native call", spec.LanceKNN, func(c *spec.Contender) { c.Strategy = spec.Native }), 0.39, 1)
	for _, round := range native.DurationsNS {
		inside := make([]int64, len(round))
		for i := range inside {
			inside[i] = round[i] - 5_000
		}
		native.NativeNS = append(native.NativeNS, inside)
	}
	require.NoError(t, record.Append(path, record.Run{Type: record.TypeRun, ID: "r", Profile: "quick"},
		steady("single-8-mixed", slow, 4, 1), steady("single-8-mixed", fast, 2, 1), steady("single-8-mixed", mine, 0.4, 1),
		steady("single-8-mixed", fixed, 0.3, 1), native, end("single-8-mixed", spec.Single, ""),
		steady("single-1", fast, 1, 1), steady("single-1", mine, 3, 1), end("single-1", spec.Single, ""),
		record.Rejection{Type: record.TypeRejection, Run: "r", Scenario: "single-32-mixed", Contender: mine, Reason: "recall 0.9 is below 0.99"},
		steady("single-32-mixed", fast, 1, 1), end("single-32-mixed", spec.Single, ""),
		steady("throughput-8-mixed", contender("pylance, 2 clients", spec.Pylance, isReference, func(c *spec.Contender) { c.Clients = 2 }), 1, 1),
		steady("throughput-8-mixed", contender("lanceknn auto, 8 clients", spec.LanceKNN, isDefault, func(c *spec.Contender) { c.Clients = 8 }), 0.2, 1),
		end("throughput-8-mixed", spec.Throughput, ""),
		steady("curve", contender("pylance nprobes=1", spec.Pylance), 1, 0.8), steady("curve", contender("pylance nprobes=8", spec.Pylance), 2, 1),
		steady("curve", mine, 0.2, 0.995), end("curve", spec.Single, "recall")))
	return path
}

func TestJudge_RatioIsToTheFastestReference(t *testing.T) {
	f, err := record.Read(results(t))
	require.NoError(t, err)
	v := judge(f, target{Scenario: "single-8-mixed", Limit: 0.25})
	require.InDelta(t, 0.2, v.Measured, 1e-9)
	require.True(t, v.Met)
	require.Equal(t, "pylance fast", v.Reference.Contender.Name)
	require.LessOrEqual(t, v.Low, v.Measured)
	require.GreaterOrEqual(t, v.High, v.Measured)

	v = judge(f, target{Scenario: "single-1", Limit: 0.5})
	require.InDelta(t, 3, v.Measured, 1e-9)
	require.False(t, v.Met)

	v = judge(f, target{Scenario: "throughput-8-mixed", Limit: 4, Faster: true})
	require.InDelta(t, 5, v.Measured, 1e-6)
	require.True(t, v.Met)

	v = judge(f, target{Scenario: "single-8-mixed", Limit: 0.25, Better: true})
	require.False(t, v.Met, "equal recall is not better recall")

	v = judge(f, target{Scenario: "single-32-mixed", Limit: 0.25})
	require.True(t, math.IsNaN(v.Measured))
	require.Contains(t, v.Why, "rejected: recall 0.9")

	require.Equal(t, "not run", judge(f, target{Scenario: "storage-30ms"}).Why)
}

func TestInterval_DrawsTurns(t *testing.T) {
	sample := func(turns ...int64) *record.Sample {
		var round []int64
		for _, ms := range turns {
			for range 10 {
				round = append(round, ms*1e6)
			}
		}
		return &record.Sample{DurationsNS: [][]int64{round}}
	}
	sc := &spec.Scenario{Kind: spec.Single, Block: 10}
	low, high := interval(sc, sample(1, 1, 1, 2), sample(1, 1, 1, 1))
	require.InDelta(t, 1, low, 1e-9)
	require.InDelta(t, 2, high, 1e-9, "one turn in four was slow: two such in four draws are common, twenty such calls in forty are not")
}

func TestOverhead_IsOnTopOfTheNativeSearch(t *testing.T) {
	f, err := record.Read(results(t))
	require.NoError(t, err)
	ffi, all := overheads(f.Find("single-8-mixed"))
	require.InDelta(t, 5_000, ffi, 1)
	require.InDelta(t, 15_000, all, 2_000, "0.4 ms against 0.39 ms less 5 us")
}

func TestWrite_ReportAndPlots(t *testing.T) {
	in, dir := results(t), t.TempDir()
	out, plots := filepath.Join(dir, "REPORT.md"), filepath.Join(dir, "plots")
	require.NoError(t, Write(out, plots, []string{in}))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	report := string(text)
	require.Contains(t, report, "| one query, defaults, 8 mixed segments | <= 0.25 | **0.200** |")
	require.Contains(t, report, "`single-1`: lanceknn auto takes 3.00 times as long as pylance fast")
	require.Contains(t, report, "`single-32-mixed`, lanceknn auto: rejected")
	require.Contains(t, report, "| single-8-mixed | 400 us | lanceknn grid | 300 us | 1.33 | 1.33-1.33 | **no** |")
	require.Contains(t, report, "What the figures do not show")
	pictures, err := filepath.Glob(filepath.Join(plots, "*.svg"))
	require.NoError(t, err)
	require.Len(t, pictures, 3)
	for _, picture := range pictures {
		require.Contains(t, report, "plots/"+filepath.Base(picture))
		content, err := os.ReadFile(picture)
		require.NoError(t, err)
		require.NotContains(t, string(content), "NaN")
		decoder := xml.NewDecoder(strings.NewReader(string(content)))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, filepath.Base(picture))
		}
	}
}

func TestWrite_NothingToReport(t *testing.T) {
	dir := t.TempDir()
	err := Write(filepath.Join(dir, "R.md"), dir, []string{filepath.Join(dir, "none.jsonl")})
	require.ErrorContains(t, err, "no complete scenario")
}
