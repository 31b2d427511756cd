package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// storageFlags are the object store's options. Their values are often secret, so no message repeats one.
type storageFlags struct{ pairs []string }

func (s *storageFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.pairs, "storage-option", nil, "`KEY=VALUE` for the object store, in Lance's words; may be repeated")
}

func (s *storageFlags) options() (map[string]string, error) {
	if len(s.pairs) == 0 {
		return nil, nil
	}
	options := make(map[string]string, len(s.pairs))
	for i, pair := range s.pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("--storage-option number %d is not of the form KEY=VALUE", i+1)
		}
		options[key] = value
	}
	return options, nil
}
