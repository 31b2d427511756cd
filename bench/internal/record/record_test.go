package record

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

func scenario(id, print string) Scenario {
	return Scenario{Type: TypeScenario, Run: "r", Scenario: spec.Scenario{ID: id}, Fingerprint: print, Quiet: true}
}

func sample(id, contender string) Sample {
	return Sample{Type: TypeSample, Run: "r", Scenario: id, Contender: spec.Contender{Name: contender}, DurationsNS: [][]int64{{1, 2}}}
}

func TestRead_LatestCompleteScenarioWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	require.NoError(t, Append(path, Run{Type: TypeRun, ID: "r"}))
	require.NoError(t, Append(path, sample("a", "old"), scenario("a", "1")))
	require.NoError(t, Append(path, sample("b", "x"), Rejection{Type: TypeRejection, Scenario: "b"}, scenario("b", "1")))
	require.NoError(t, Append(path, sample("a", "new"), scenario("a", "2")))
	f, err := Read(path)
	require.NoError(t, err)
	require.Len(t, f.Scenarios, 2)
	require.Equal(t, "2", f.Find("a").Fingerprint)
	require.NotNil(t, f.Find("a").Sample("new"))
	require.Nil(t, f.Find("a").Sample("old"))
	require.Len(t, f.Find("b").Rejections, 1)
	require.Nil(t, f.Find("c"))
}

func TestRead_InterruptedScenarioIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	require.NoError(t, Append(path, sample("a", "x"), scenario("a", "1")))
	require.NoError(t, Append(path, sample("b", "x")))
	require.NoError(t, Append(path, Run{Type: TypeRun, ID: "again"}, sample("b", "y"), scenario("b", "1")))
	f, err := Read(path)
	require.NoError(t, err)
	require.Len(t, f.Find("b").Samples, 1, "what the interrupted run left is not part of the next one's")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text[:len(text)-20], 0o600))
	f, err = Read(path)
	require.NoError(t, err)
	require.NotNil(t, f.Find("a"))
	require.Nil(t, f.Find("b"), "a scenario whose last line is cut off is not complete")

	require.NoError(t, Append(path, sample("b", "z"), scenario("b", "1")))
	f, err = Read(path)
	require.NoError(t, err, "what was cut off must not spoil what follows")
	require.NotNil(t, f.Find("b").Sample("z"))
}

func TestRead_MissingFileIsEmptyAndGarbageIsNot(t *testing.T) {
	dir := t.TempDir()
	f, err := Read(filepath.Join(dir, "none.jsonl"))
	require.NoError(t, err)
	require.Empty(t, f.Scenarios)
	path := filepath.Join(dir, "bad.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("{\"type\":\"what\"}\n"), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, "line 1: unknown type \"what\"")
}
