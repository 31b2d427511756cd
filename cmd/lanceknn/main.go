package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lanceknn/lanceknn/distributed"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	c := console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Native work stops where it can, which may take a while in the training of an index. A second signal does not wait.
	context.AfterFunc(ctx, func() {
		stop()
		if c.errTerminal {
			fmt.Fprintln(c.err, "\nlanceknn: stopping; interrupt again to stop at once")
		}
	})
	code := c.run(ctx, os.Args[1:])
	os.Exit(code)
}

// console is where a command reads and writes.
type console struct {
	in                       io.Reader
	out, err                 io.Writer
	outTerminal, errTerminal bool
}

// run carries out one command line and gives the exit code.
func (c console) run(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	err = asTyped(command, err)
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(c.err, "lanceknn: %s (see %s --help)\n", oneLine(usage.message), command.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(c.err, "lanceknn: %s\n", oneLine(explain(ctx, err)))
	return exitFailure
}

func (c console) root() *cobra.Command {
	root := &cobra.Command{
		Use:                        "lanceknn",
		Short:                      "Nearest-neighbour search over Lance datasets, split by index segments",
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       subcommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	root.AddCommand(c.genCommand(), c.indexCommand(), c.searchCommand(), c.planCommand(), c.demoCommand(), c.versionCommand())
	return root
}

// usageError is a mistake in the command line, as opposed to something that went wrong while carrying it out.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// asTyped makes the library's refusal of what was typed a mistake in the command line, and names the flag.
func asTyped(cmd *cobra.Command, err error) error {
	var argument *distributed.ArgumentError
	var query *distributed.QueryError
	var index *distributed.IndexError
	switch {
	case errors.As(err, &argument):
		if flag := typedFlag(cmd, argument.Name); flag != "" {
			return usagef("--%s: %s", flag, argument.Reason)
		}
	case errors.As(err, &query), errors.As(err, &index) && index.Name != "":
		return usagef("%s", plain(err))
	}
	return err
}

// typedFlag is the flag that set a field of the library, empty where none was typed: the field has its default then, or the fault is elsewhere.
func typedFlag(cmd *cobra.Command, field string) string {
	field, _, _ = strings.Cut(strings.ToLower(strings.TrimPrefix(field, "Options.")), "[")
	found := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if name := strings.ReplaceAll(f.Name, "-", ""); name == field || name == "vector" && field == "vectors" {
			found = f.Name
		}
	})
	return found
}

// subcommand refuses a word that is not a command.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += fmt.Sprintf(": did you mean %q?", near[0])
	}
	return usagef("%s", message)
}

// oneURI takes the dataset's URI and nothing else.
func oneURI(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("the dataset's URI is missing")
	case len(args) > 1:
		return usagef("one URI is wanted, but %q follows it", args[1])
	case args[0] == "":
		return usagef("the dataset's URI is empty")
	}
	return nil
}

// required names the flags that were left out, all of them.
func required(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return usagef("%s is needed", strings.Join(missing, " and "))
	}
	return nil
}

// explain words an error as a person at the command line would.
func explain(ctx context.Context, err error) string {
	var timeout timeoutError
	var coverage *distributed.CoverageError
	switch {
	case errors.As(err, &timeout):
		return timeout.Error()
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, &coverage):
		return fmt.Sprintf("index %q on %q does not cover %d of %d live rows: index them, or pass --unindexed scan or --unindexed skip",
			coverage.Index, coverage.Column, coverage.Rows, coverage.LiveRows)
	}
	return plain(err)
}

// plain leaves out the name of the package, which means nothing at the command line.
func plain(err error) string {
	message := err.Error()
	for _, name := range []string{"binding: ", "distributed: "} {
		message = strings.TrimPrefix(message, name)
	}
	return message
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
