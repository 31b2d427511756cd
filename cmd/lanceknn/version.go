package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lanceknn/lanceknn/binding"
)

func (c console) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the native library's version and what it was built for",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("version takes no argument, got %q", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			info, err := binding.Info()
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "lance-ffi %s, lance %s, %s (%s), %s\n", info.Version, info.Lance, info.Target, info.TargetCPU, info.Rustc)
			return nil
		},
	}
}
