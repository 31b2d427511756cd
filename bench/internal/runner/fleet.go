package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/objectstore"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// unavailableError says that a contender cannot run on this machine, as against failing while it runs.
type unavailableError struct{ err error }

func (e *unavailableError) Error() string { return e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }

// fleet holds a scenario's processes, one per engine and environment, and the object stores they read.
type fleet struct {
	runner   *Runner
	set      *dataset.Set
	scenario spec.Scenario
	members  map[string]*member
	servers  map[string]*objectstore.Server
}

type member struct {
	process *engine.Process
	hello   *engine.Reply
	opened  bool
	err     error
}

func newFleet(r *Runner, set *dataset.Set, s spec.Scenario) *fleet {
	return &fleet{runner: r, set: set, scenario: s, members: map[string]*member{}, servers: map[string]*objectstore.Server{}}
}

// launch gives an entry its process, started when it is the first to need it, with the queries loaded.
func (f *fleet) launch(ctx context.Context, e *entry) error {
	name := key(e.contender)
	m := f.members[name]
	if m == nil {
		m = &member{}
		f.members[name] = m
		m.process, m.hello, m.err = f.runner.start(ctx, e.contender)
		if m.err != nil && e.contender.Engine == spec.LanceRay {
			m.err = &unavailableError{m.err}
		}
		if m.err == nil {
			_, m.err = call(ctx, m.process, engine.Request{
				Op: "load", Set: dataset.Judge, Path: f.set.QueryFile(dataset.Judge), Dim: f.set.Spec.Dim,
			})
		}
	}
	if m.err != nil {
		return m.err
	}
	e.process, e.versions = m.process, m.hello.Versions
	return nil
}

// attach launches and opens the table, once per process.
func (f *fleet) attach(ctx context.Context, e *entry) error {
	if err := f.launch(ctx, e); err != nil {
		return err
	}
	m := f.members[key(e.contender)]
	if m.opened {
		return nil
	}
	_, err := f.open(ctx, e)
	m.opened, m.err = err == nil, err
	return err
}

func (f *fleet) open(ctx context.Context, e *entry) (*engine.Reply, error) {
	request := engine.Request{Op: "open", Handle: handle, URI: f.set.Table(), Version: f.set.Version}
	if f.scenario.Kind == spec.ColdStorage {
		server, err := f.server(e)
		if err != nil {
			return nil, err
		}
		request.URI, request.StorageOptions = "s3://"+objectstore.Bucket+"/table.lance", server.StorageOptions()
	}
	opened, err := call(ctx, e.process, request)
	if err != nil {
		return nil, err
	}
	if opened.Version != f.set.Version {
		return nil, fmt.Errorf("opened version %d, the data set is version %d", opened.Version, f.set.Version)
	}
	return opened, nil
}

// server is the object store of an entry's own, so that its requests are counted apart.
func (f *fleet) server(e *entry) (*objectstore.Server, error) {
	name := e.contender.Name
	if s := f.servers[name]; s != nil {
		return s, nil
	}
	s, err := objectstore.Serve(f.set.Dir, time.Duration(f.scenario.LatencyMS)*time.Millisecond)
	if err == nil {
		f.servers[name] = s
	}
	return s, err
}

// retire ends an entry's process.
func (f *fleet) retire(e *entry) error {
	name := key(e.contender)
	m := f.members[name]
	delete(f.members, name)
	return m.process.Close()
}

func (f *fleet) close() {
	var errs []error
	for _, m := range f.members {
		if m.process != nil {
			errs = append(errs, m.process.Close())
		}
	}
	for _, s := range f.servers {
		errs = append(errs, s.Close())
	}
	if err := errors.Join(errs...); err != nil {
		f.runner.Progress("    closing: %v", err)
	}
}

// clean takes this machine's paths out of a text that goes into a record.
func (r *Runner) clean(text string) string {
	replace := map[string]string{r.Work: "<work>", r.Store.Root: "<data>", r.Library.Path: "<library>", filepath.Dir(r.Self): "<bench>"}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		replace[home] = "~"
	}
	if root, err := os.Getwd(); err == nil {
		replace[root] = "."
	}
	// Longest first: a folder must not be replaced inside the path of its own child.
	for {
		longest := ""
		for from := range replace {
			if len(from) > len(longest) {
				longest = from
			}
		}
		if longest == "" {
			return text
		}
		text = strings.ReplaceAll(text, longest, replace[longest])
		delete(replace, longest)
	}
}
