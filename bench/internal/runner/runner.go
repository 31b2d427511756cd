// Package runner runs scenarios: every contender answers the same queries, block by block in turn, so that whatever happens to the machine
// happens to all of them alike.
package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// Quiet is the share of the machine that others may use before a scenario's figures are marked as not quiet, and taken again by the next run.
const Quiet = 0.05

// callTimeout bounds one request to a worker; the longest legitimate one is a block of cold queries on slow storage.
const callTimeout = 5 * time.Minute

// Runner runs a profile's scenarios and appends their records.
type Runner struct {
	RunID   string
	Out     string // results file
	Work    string // folder for logs and scripts
	Cores   int
	Threads int // of each native CPU pool
	Sources host.Sources
	Library host.Library
	Store   *dataset.Store
	// Fresh runs scenarios again that the results file holds already.
	Fresh bool
	// Quiet is the share of the machine that others may use, see the constant.
	Quiet float64
	// Self is the program that serves as lanceknn's worker when called with "worker".
	Self string
	// RayPython returns the interpreter with lance-ray, made on first use.
	RayPython func(context.Context) (string, error)
	// Progress gets one line per step.
	Progress func(format string, args ...any)
}

// Outcome counts what happened.
type Outcome struct {
	Done, Skipped, Failed int
	// Rejected counts contenders of this library whose answers were refused.
	Rejected int
	Noisy    int
}

// Run runs the scenarios that the results file does not hold already with the same fingerprint.
func (r *Runner) Run(ctx context.Context, p spec.Profile) (Outcome, error) {
	var o Outcome
	if err := errors.Join(os.MkdirAll(r.Work, 0o755), engine.Scripts(r.Work)); err != nil {
		return o, err
	}
	done, err := record.Read(r.Out)
	if err != nil {
		return o, fmt.Errorf("results file: %w", err)
	}
	for i, s := range p.Scenarios {
		if err := ctx.Err(); err != nil {
			return o, context.Cause(ctx)
		}
		label := fmt.Sprintf("[%d/%d] %s", i+1, len(p.Scenarios), s.ID)
		d, ok := p.Find(s.Data)
		if !ok {
			return o, fmt.Errorf("scenario %s: no data set %q in profile %s", s.ID, s.Data, p.Name)
		}
		set, err := r.Store.Prepare(ctx, d)
		if err != nil {
			return o, err
		}
		print, err := r.fingerprint(s, set)
		if err != nil {
			return o, err
		}
		if old := done.Find(s.ID); !r.Fresh && old != nil && old.Fingerprint == print && old.Quiet && len(old.Failures) == 0 {
			r.Progress("%s: kept from an earlier run", label)
			o.Skipped++
			continue
		}
		r.Progress("%s: %s", label, s.Title)
		e := &execution{runner: r, scenario: s, set: set, fingerprint: print}
		if err := e.run(ctx); err != nil {
			return o, fmt.Errorf("scenario %s: %w", s.ID, err)
		}
		o.Done++
		o.Failed += e.failures
		o.Rejected += e.rejectedOwn
		if !e.quiet {
			o.Noisy++
		}
	}
	return o, nil
}

func (r *Runner) fingerprint(s spec.Scenario, set *dataset.Set) (string, error) {
	text, err := json.Marshal([]any{s, set.Hash, r.Library.SHA256, r.Sources.Measured, r.Threads})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// key names the process a contender runs in.
func key(c spec.Contender) string {
	text, err := json.Marshal([]any{c.Engine, c.Environment})
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// environment is what a worker's process sees: this one's, with the thread budget, and the contender's own changes. An empty value unsets.
func (r *Runner) environment(c spec.Contender) []string {
	threads := strconv.Itoa(r.Threads)
	set := map[string]string{
		"LANCE_CPU_THREADS": threads, "LANCE_FFI_LIB": r.Library.Path, "LANCEKNN_BENCH_RAY_WORKERS": threads,
		"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_DEDUP_LOGS": "0",
		"PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1",
	}
	for name, value := range c.Environment {
		set[name] = value
	}
	var all []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if _, ours := set[name]; !ours {
			all = append(all, pair)
		}
	}
	for name, value := range set {
		if value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

func (r *Runner) command(ctx context.Context, c spec.Contender) (engine.Command, error) {
	command := engine.Command{Environment: r.environment(c), Log: filepath.Join(r.Work, c.Engine+".log")}
	if len(c.Environment) > 0 {
		command.Log = filepath.Join(r.Work, c.Engine+"-variant.log")
	}
	switch c.Engine {
	case spec.LanceKNN:
		command.Args = []string{r.Self, "worker"}
	case spec.Pylance:
		command.Args = []string{r.Store.Python, filepath.Join(r.Work, "pylance_worker.py")}
	case spec.LanceRay:
		python, err := r.RayPython(ctx)
		if err != nil {
			return command, err
		}
		// Ray talks to itself over the machine's own address; in a network namespace with only the loopback it has no other.
		script := filepath.Join(r.Work, "ray_worker.py")
		namespace := []string{"unshare", "--net"}
		if os.Geteuid() != 0 {
			namespace = []string{"unshare", "--user", "--map-root-user", "--net"}
		}
		command.Args = append(namespace, "sh", "-c", `ip link set lo up && exec "$@"`, "sh", python, script)
	default:
		return command, fmt.Errorf("engine %q is unknown", c.Engine)
	}
	return command, nil
}

// start runs the process of a contender and waits until it answers.
func (r *Runner) start(ctx context.Context, c spec.Contender) (*engine.Process, *engine.Reply, error) {
	command, err := r.command(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	process, err := engine.Start(command)
	if err != nil {
		return nil, nil, err
	}
	hello, err := call(ctx, process, engine.Request{Op: "hello"})
	if err != nil {
		return nil, nil, errors.Join(err, process.Kill())
	}
	return process, hello, nil
}

// Hello starts this library's worker, and says what it answers.
func (r *Runner) Hello(ctx context.Context) (*engine.Reply, error) {
	if err := os.MkdirAll(r.Work, 0o755); err != nil {
		return nil, err
	}
	process, hello, err := r.start(ctx, spec.Contender{Engine: spec.LanceKNN})
	if err != nil {
		return nil, err
	}
	return hello, process.Close()
}

func call(ctx context.Context, p *engine.Process, q engine.Request) (*engine.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.Call(ctx, q)
}

func (r *Runner) budget(c spec.Contender) record.Budget {
	b := record.Budget{Cores: r.Cores, CPUThreads: strconv.Itoa(r.Threads), IOThreads: "default", Clients: max(1, c.Clients)}
	if v, ok := c.Environment["LANCE_CPU_THREADS"]; ok {
		b.CPUThreads = v
		if v == "" {
			b.CPUThreads = "default"
		}
	}
	if v := os.Getenv("LANCE_IO_THREADS"); v != "" {
		b.IOThreads = v
	}
	if c.Engine == spec.LanceRay {
		b.Workers = r.Threads
	}
	return b
}
