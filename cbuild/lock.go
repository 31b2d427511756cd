package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock takes an exclusive lock named name in the cache, waiting for its holder. The kernel drops it when the process
// ends, so that a killed build leaves none behind.
func (l layout) lock(name string) (release func(), err error) {
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(l.cache, name+".lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		say("waiting for another cbuild that holds %s", path)
		err = flock(f, syscall.LOCK_EX)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
