// Command bench measures this library beside pylance and lance-ray on the same snapshots, and reports what it finds, losses included.
//
//	go run ./bench -profile quick     prepare data, run every scenario of the profile, write results and the report
//	go run ./bench prepare            only make the data and the interpreters
//	go run ./bench list               the scenarios of a profile
//	go run ./bench report             make REPORT.md and its plots from results files
//	go run ./bench probe              sweep the search-effort knob on one data set
//
// bench/README.md is the guide.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/worker"
)

var commands = map[string]func(context.Context, []string) error{
	"run": runCommand, "prepare": prepareCommand, "list": listCommand, "report": reportCommand, "probe": probeCommand, "worker": workerCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dispatch(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	name := "run"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	command, ok := commands[name]
	if !ok {
		return fmt.Errorf("no command %q: use run, prepare, list, report or probe", name)
	}
	return command(ctx, args)
}

// workerCommand is the process that the driver starts for this library's contenders.
func workerCommand(context.Context, []string) error {
	// The protocol has the original standard output for itself.
	out := os.Stdout
	os.Stdout = os.Stderr
	w := worker.New()
	return errors.Join(engine.Serve(os.Stdin, out, w), w.Close())
}
