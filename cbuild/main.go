package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

const usage = `usage: go run ./cbuild [build | static | header | header-check | venv | tools [NAME..] | cargo ARG..]`

// errUsage marks a mistake in the command line, which exits with 2 rather than 1.
var errUsage = errors.New(usage)

func main() {
	err := run(os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "cbuild:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "cbuild:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	command := "build"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	if command == "help" || command == "-h" || command == "--help" {
		fmt.Println(usage)
		return nil
	}
	if takesArguments := command == "tools" || command == "cargo"; !takesArguments && len(args) > 0 {
		return fmt.Errorf("%s takes no argument, got %q: %w", command, strings.Join(args, " "), errUsage)
	}
	l, err := newLayout(os.Getenv)
	if err != nil {
		return err
	}
	switch command {
	case "build":
		return build(l, sharedLibrary)
	case "static":
		return build(l, staticLibrary)
	case "header":
		return header(l)
	case "header-check":
		return headerCheck(l)
	case "venv":
		return venv(l)
	case "tools":
		return tools(l, args)
	case "cargo":
		return cargo(l, args)
	default:
		return fmt.Errorf("unknown command %q: %w", command, errUsage)
	}
}
