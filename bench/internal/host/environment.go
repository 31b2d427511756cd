// Package host knows the machine the benchmark runs on: what it is, what runs on it, and where the interpreters and the library are.
package host

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Environment is what a figure depends on besides the code. It names no path, user or host.
type Environment struct {
	CPU            string            `json:"cpu"`
	Flags          []string          `json:"cpu_flags"` // the vector extensions among them
	Cores          int               `json:"cores"`     // logical, as the process sees them
	ThreadsPerCore int               `json:"threads_per_core"`
	L3             string            `json:"l3,omitempty"`
	MemoryBytes    int64             `json:"memory_bytes"`
	Kernel         string            `json:"kernel"`
	OS             string            `json:"os"`
	Governor       string            `json:"governor,omitempty"`
	Go             string            `json:"go"`
	Rustc          string            `json:"rustc,omitempty"`
	Variables      map[string]string `json:"variables"`
}

// relevant are the environment variables that change how fast something runs.
var relevant = regexp.MustCompile(`^(LANCE_.*|GOMAXPROCS|GOGC|GOMEMLIMIT|GODEBUG|OMP_.*|OPENBLAS_.*|MKL_.*|RAYON_.*|TOKIO_.*|RAY_.*|MALLOC_.*|LD_PRELOAD|RUST_.*)$`)

// private are values that are not for a record.
var private = regexp.MustCompile(`(?i)(key|secret|token|password)`)

// Describe reads the machine's description.
func Describe() Environment {
	e := Environment{Cores: runtime.NumCPU(), ThreadsPerCore: 1, Go: runtime.Version(), Variables: map[string]string{}}
	for _, line := range lines("/proc/cpuinfo") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "model name":
			e.CPU = value
		case "flags":
			e.Flags = slices.DeleteFunc(strings.Fields(value), func(f string) bool {
				return !strings.HasPrefix(f, "avx") && f != "fma" && f != "f16c" && f != "bmi2" && !strings.HasPrefix(f, "amx")
			})
		}
	}
	if list := text("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list"); list != "" {
		e.ThreadsPerCore = len(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '-' }))
	}
	e.L3 = text("/sys/devices/system/cpu/cpu0/cache/index3/size")
	e.Governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	for _, line := range lines("/proc/meminfo") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			e.MemoryBytes = kib << 10
		}
	}
	e.Kernel = text("/proc/sys/kernel/osrelease")
	for _, line := range lines("/etc/os-release") {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			e.OS = strings.Trim(name, `"`)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if !relevant.MatchString(name) || private.MatchString(name) {
			continue
		}
		if filepath.IsAbs(value) || (home != "" && strings.Contains(value, home)) {
			value = filepath.Base(value)
		}
		e.Variables[name] = value
	}
	return e
}

func text(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

func lines(path string) []string {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var all []string
	scanner := bufio.NewScanner(bytes.NewReader(content))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	return all
}

// output is what a command prints, empty when it fails.
func output(dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
