package main

import (
	"debug/elf"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

var (
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	lineComment  = regexp.MustCompile(`//[^\n]*`)
	// A declaration, not a mention: a type name, then the function's name and its parameter list.
	declaration = regexp.MustCompile(`\b(lance_ffi_[a-z0-9_]+)\s*\(`)
)

// declaredSymbols lists the functions that the text of a C header declares, sorted.
func declaredSymbols(header string) []string {
	code := lineComment.ReplaceAllString(blockComment.ReplaceAllString(header, " "), "")
	var names []string
	for _, m := range declaration.FindAllStringSubmatch(code, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkSymbols fails if the header declares a function that the library does not export: loading it would fail later
// and elsewhere.
func checkSymbols(header, library string) error {
	text, err := os.ReadFile(header)
	if err != nil {
		return err
	}
	want := declaredSymbols(string(text))
	if len(want) == 0 {
		return fmt.Errorf("%s declares no lance_ffi_ function", header)
	}
	f, err := elf.Open(library)
	if err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	defer func() { _ = f.Close() }()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	exported := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			exported[s.Name] = true
		}
	}
	missing := slices.DeleteFunc(want, func(name string) bool { return exported[name] })
	if len(missing) > 0 {
		return fmt.Errorf("%s is declared in lance_ffi.h but not exported by the library: regenerate the header with make header",
			strings.Join(missing, ", "))
	}
	return nil
}
