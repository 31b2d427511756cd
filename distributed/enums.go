package distributed

import (
	"fmt"
	"slices"
	"strings"
)

// Strategy is how a search is split into tasks.
type Strategy uint8

// The strategies. A search that cannot be split over rows (see [Plan.Explain]) is split over queries at most.
const (
	Auto     Strategy = iota // chosen by the number of queries, the index and the workers
	Single                   // one task: one scan over everything
	Segments                 // the index segments are spread over tasks, each answers all queries
	Queries                  // the queries are spread over tasks, each searches all segments
	Grid                     // both
)

var strategyNames = []string{"auto", "single", "segments", "queries", "grid"}

// String gives auto, single, segments, queries or grid.
func (s Strategy) String() string { return enumName(strategyNames, uint8(s), "strategy") }

// ParseStrategy reads what [Strategy.String] writes.
func ParseStrategy(s string) (Strategy, error) {
	i, err := parseEnum(strategyNames, s, "strategy")
	return Strategy(i), err
}

// MarshalText writes [Strategy.String].
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is [ParseStrategy].
func (s *Strategy) UnmarshalText(text []byte) (err error) {
	*s, err = ParseStrategy(string(text))
	return err
}

// Unindexed is what happens to live rows that no segment of the index covers.
type Unindexed uint8

// The policies.
const (
	Require Unindexed = iota // there must be none: else [CoverageError]
	Scan                     // they are searched flat, beside the index
	Skip                     // they are left out; without an index that fits, that is every row
)

var unindexedNames = []string{"require", "scan", "skip"}

// String gives require, scan or skip.
func (u Unindexed) String() string { return enumName(unindexedNames, uint8(u), "unindexed policy") }

// ParseUnindexed reads what [Unindexed.String] writes.
func ParseUnindexed(s string) (Unindexed, error) {
	i, err := parseEnum(unindexedNames, s, "unindexed policy")
	return Unindexed(i), err
}

// MarshalText writes [Unindexed.String].
func (u Unindexed) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText is [ParseUnindexed].
func (u *Unindexed) UnmarshalText(text []byte) (err error) {
	*u, err = ParseUnindexed(string(text))
	return err
}

// TaskKind is what a task searches.
type TaskKind uint8

// The kinds.
const (
	IndexTask TaskKind = iota // the task's segments
	FlatTask                  // the rows of the task's fragments, without an index: distances are exact
	ScanTask                  // everything in one scan of Lance, which searches the index and what it does not cover by itself
)

var taskKindNames = []string{"index", "flat", "scan"}

// String gives index, flat or scan.
func (k TaskKind) String() string { return enumName(taskKindNames, uint8(k), "task kind") }

// MarshalText writes [TaskKind.String].
func (k TaskKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (k *TaskKind) UnmarshalText(text []byte) error {
	i, err := parseEnum(taskKindNames, string(text), "task kind")
	*k = TaskKind(i)
	return err
}

func enumName(names []string, i uint8, kind string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

func parseEnum(names []string, s, kind string) (int, error) {
	i := slices.Index(names, s)
	if i < 0 {
		return 0, &ArgumentError{Name: kind, Reason: fmt.Sprintf("unknown %s %q; use %s", kind, s, strings.Join(names, ", "))}
	}
	return i, nil
}
