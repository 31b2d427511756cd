package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the worker that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv("BENCH_TEST_WORKER") == "1" {
		if err := Serve(os.Stdin, os.Stdout, echo{}); err != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// echo answers with what it was asked.
type echo struct{}

func (echo) Handle(r Request) (*Reply, error) {
	switch r.Op {
	case "fail":
		return nil, errors.New("no such thing")
	case "panic":
		panic("boom")
	case "die":
		os.Stderr.WriteString("last words\n")
		os.Exit(7)
	case "hang":
		time.Sleep(time.Hour)
	}
	return &Reply{Queries: len(r.Queries), Results: []Result{{IDs: []uint64{1<<64 - 1}, Distances: []float64{0.5}}}}, nil
}

func start(t *testing.T) *Process {
	t.Helper()
	p, err := Start(Command{Args: []string{os.Args[0]}, Environment: append(os.Environ(), "BENCH_TEST_WORKER=1"), Log: filepath.Join(t.TempDir(), "log")})
	require.NoError(t, err)
	return p
}

func TestProcess_RequestsAndReplies(t *testing.T) {
	p := start(t)
	got, err := p.Call(t.Context(), Request{Op: "run", Queries: make([]int, 100_000)})
	require.NoError(t, err)
	require.Equal(t, 100_000, got.Queries)
	require.Equal(t, uint64(1<<64-1), got.Results[0].IDs[0], "row ids keep all their bits")
	require.NoError(t, p.Close())
}

func TestProcess_EngineErrorsLeaveTheWorkerAlive(t *testing.T) {
	p := start(t)
	var reported *Error
	_, err := p.Call(t.Context(), Request{Op: "fail"})
	require.ErrorAs(t, err, &reported)
	require.Equal(t, "fail: no such thing", reported.Error())
	_, err = p.Call(t.Context(), Request{Op: "panic"})
	require.ErrorContains(t, err, "panic: boom")
	_, err = p.Call(t.Context(), Request{Op: "run"})
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

func TestProcess_DeadWorkerIsAnErrorWithItsLastWords(t *testing.T) {
	p := start(t)
	_, err := p.Call(t.Context(), Request{Op: "die"})
	require.ErrorContains(t, err, "ended during")
	require.ErrorContains(t, err, "last words")
	require.NoError(t, p.Close())
}

func TestProcess_HangingWorkerIsLeftAndEnded(t *testing.T) {
	p := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, Request{Op: "hang"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	begin := time.Now()
	require.NoError(t, p.Kill())
	require.Less(t, time.Since(begin), 5*time.Second)
}

func TestScripts_WritesEveryWorker(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Scripts(dir))
	for _, name := range []string{"worker.py", "pylance_worker.py", "ray_worker.py"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), `"""`))
	}
}
