package binding

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/cpu"
)

// cpuFeature is an instruction set that code may have been compiled for.
type cpuFeature struct {
	name    string
	present bool
}

// hostFeatures gives the features that each x86-64 level adds to the one before it. Those of the vector sets include the operating system's support.
func hostFeatures() map[string][]cpuFeature {
	x86 := &cpu.X86
	return map[string][]cpuFeature{
		"x86-64-v2": {
			{"cx16", x86.HasCX16}, {"popcnt", x86.HasPOPCNT}, {"sse3", x86.HasSSE3}, {"ssse3", x86.HasSSSE3}, {"sse4.1", x86.HasSSE41}, {"sse4.2", x86.HasSSE42},
		},
		"x86-64-v3": {
			{"osxsave", x86.HasOSXSAVE},
			{"avx", x86.HasAVX},
			{"avx2", x86.HasAVX2},
			{"bmi1", x86.HasBMI1},
			{"bmi2", x86.HasBMI2},
			{"f16c", x86.HasF16C},
			{"fma", x86.HasFMA},
			{"lzcnt", x86.HasLZCNT},
			{"movbe", x86.HasMOVBE},
		},
		"x86-64-v4": {
			{"avx512f", x86.HasAVX512F}, {"avx512bw", x86.HasAVX512BW}, {"avx512cd", x86.HasAVX512CD}, {"avx512dq", x86.HasAVX512DQ}, {"avx512vl", x86.HasAVX512VL},
		},
	}
}

var x86Levels = []string{"x86-64-v2", "x86-64-v3", "x86-64-v4"}

// checkCPU refuses a library compiled for features this machine lacks, before any of its code runs: afterwards it would be SIGILL. A library that does
// not say what it was compiled for is let through.
func checkCPU(path string, features map[string][]cpuFeature) error {
	target, err := targetCPU(path)
	if err != nil || target == "" {
		return err
	}
	missing := missingFeatures(target, features)
	if len(missing) == 0 {
		return nil
	}
	return &Error{Op: "load", Code: CodeUnsupportedCPU, Message: fmt.Sprintf(
		"library %q is built for %s, and this machine lacks %s; rebuild it with a lower target cpu", path, target, strings.Join(missing, ", "))}
}

func missingFeatures(target string, features map[string][]cpuFeature) []string {
	var missing []string
	for _, level := range x86Levels {
		for _, f := range features[level] {
			if !f.present {
				missing = append(missing, f.name)
			}
		}
		if level == target {
			return missing
		}
	}
	return nil // not a level: nothing is known about its features
}

// targetCPU reads what the build left in the section .lanceffi, as target_cpu=<name> and a zero byte. It is empty where there is no such section.
func targetCPU(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", notLoadable(path, err)
	}
	defer file.Close()
	object, err := elf.NewFile(file)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) {
			return "", nil // not ELF: another platform's format, or nothing that the loader will take
		}
		return "", notLoadable(path, err)
	}
	section := object.Section(".lanceffi")
	if section == nil {
		return "", nil
	}
	data, err := section.Data()
	if err != nil {
		return "", notLoadable(path, err)
	}
	for _, entry := range strings.Split(string(data), "\x00") {
		if value, ok := strings.CutPrefix(entry, "target_cpu="); ok {
			return value, nil
		}
	}
	return "", nil
}

func notLoadable(path string, err error) *Error {
	return &Error{Op: "load", Code: CodeLibraryNotFound, cause: err, Message: fmt.Sprintf("library %q cannot be read: %v", path, err)}
}
