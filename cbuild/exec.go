package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "cbuild: "+format+"\n", args...)
}

// requirements are the programs that a machine must bring, each with what to install when it is missing.
var requirements = map[string]string{
	"cargo":   "install Rust %s or newer with rustup",
	"rustc":   "install Rust %s or newer with rustup",
	"cc":      "install a C compiler (Debian: apt-get install gcc libc6-dev)",
	"python3": "install Python 3.11 or newer with its venv module (Debian: apt-get install python3-venv)",
	"go":      "install Go 1.26 or newer",
}

// requirePrograms fails with one line that names every program that is missing.
func requirePrograms(rustVersion string, programs ...string) error {
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		hint := requirements[p]
		if strings.Contains(hint, "%s") {
			hint = fmt.Sprintf(hint, rustVersion)
		}
		missing = append(missing, fmt.Sprintf("%s is not on PATH: %s", p, hint))
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New(strings.Join(missing, "; "))
}

// command is a child process whose output is shown as it comes.
type command struct {
	dir  string
	env  []string
	name string
	args []string
}

// heartbeat is short enough that a watcher of a pipe does not take a crate that compiles for minutes for a hang.
const heartbeat = time.Minute

func (c command) run() error {
	cmd := exec.Command(c.name, c.args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	// Only what the caller asked for goes to stdout (a path); progress of any kind goes to stderr.
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
			return nil
		case <-tick.C:
			if !isTerminal(os.Stderr) {
				say("%s still running after %s", c, time.Since(start).Round(time.Second))
			}
		}
	}
}

func (c command) output() (string, error) {
	cmd := exec.Command(c.name, c.args...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", c, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// String names the command by its first words: enough to recognise it, short enough for one line.
func (c command) String() string {
	words := append([]string{c.name}, c.args...)
	if len(words) > 3 {
		words = words[:3]
	}
	return strings.Join(words, " ")
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
