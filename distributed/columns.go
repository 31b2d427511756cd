package distributed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/lanceknn/lanceknn/binding"
)

// The columns every result has, before the requested ones.
const (
	QueryIDColumn  = "_query_id"
	DistanceColumn = "_distance"
	RowIDColumn    = "_rowid"
)

// parseFieldPath splits a field path as Lance does: fields of structs are separated by dots, back-ticks quote a name, and a back-tick inside a
// quoted name is doubled.
func parseFieldPath(path string) ([]string, error) {
	var names []string
	rest := path
	for {
		var name string
		if strings.HasPrefix(rest, "`") {
			var b strings.Builder
			rest = rest[1:]
			for {
				quoted, after, closed := strings.Cut(rest, "`")
				if !closed {
					return nil, errors.New("a back-tick is not closed")
				}
				b.WriteString(quoted)
				rest = after
				if !strings.HasPrefix(rest, "`") {
					break
				}
				b.WriteByte('`')
				rest = rest[1:]
			}
			name = b.String()
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
			if strings.Contains(name, "`") {
				return nil, errors.New("a back-tick stands inside a name; quote the whole name")
			}
		}
		if name == "" {
			return nil, errors.New("a field name is empty")
		}
		names = append(names, name)
		if rest == "" {
			return names, nil
		}
		if rest[0] != '.' {
			return nil, errors.New("a quoted name is followed by something else than a dot")
		}
		rest = rest[1:]
	}
}

// checkColumns refuses requested columns that the dataset does not have, that come twice, or that every result has anyway. Names are compared
// exactly: Lance can hold fields that differ in case only.
func checkColumns(columns []string, schema *arrow.Schema) error {
	paths := make([][]string, len(columns))
	for i, column := range columns {
		refuse := func(err error, format string, args ...any) error {
			return &ArgumentError{Name: fmt.Sprintf("Columns[%d]", i), Reason: fmt.Sprintf(format, args...), Err: err}
		}
		names, err := parseFieldPath(column)
		if err != nil {
			return refuse(err, "%q is not a field path: %v", column, err)
		}
		switch names[0] {
		case QueryIDColumn, DistanceColumn, RowIDColumn:
			return refuse(nil, "%q is in every result; leave it out", column)
		}
		if !hasField(schema.Fields(), names) {
			return refuse(binding.ErrNotFound, "column %q does not exist; the dataset has %s", column, listFields(schema))
		}
		for j, earlier := range paths[:i] {
			if slices.Equal(earlier, names) {
				return refuse(nil, "%q is requested twice, first as Columns[%d]", column, j)
			}
		}
		paths[i] = names
	}
	return nil
}

func hasField(fields []arrow.Field, names []string) bool {
	for _, f := range fields {
		if f.Name != names[0] {
			continue
		}
		if len(names) == 1 {
			return true
		}
		nested, ok := f.Type.(arrow.NestedType)
		return ok && hasField(nested.Fields(), names[1:])
	}
	return false
}

func listFields(schema *arrow.Schema) string {
	const shown = 20
	var names []string
	for i, f := range schema.Fields() {
		if i == shown {
			names = append(names, fmt.Sprintf("and %d more", schema.NumFields()-shown))
			break
		}
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
