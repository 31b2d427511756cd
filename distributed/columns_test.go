package distributed

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func TestParseFieldPath(t *testing.T) {
	for path, want := range map[string][]string{
		"a":                   {"a"},
		"a.b.c":               {"a", "b", "c"},
		"`a.b`.c":             {"a.b", "c"},
		"a.`b c`":             {"a", "b c"},
		"`with``tick`":        {"with`tick"},
		"MiXed.日本":            {"MiXed", "日本"},
		"`a`":                 {"a"},
		"parent.`child.with`": {"parent", "child.with"},
	} {
		got, err := parseFieldPath(path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	for _, path := range []string{"", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b`", "``", "a.``"} {
		_, err := parseFieldPath(path)
		require.Error(t, err, path)
	}
}

func TestCheckColumns(t *testing.T) {
	schema, err := line(1).Schema()
	require.NoError(t, err)
	for _, good := range [][]string{nil, {"id", "title", "Title"}, {"vec"}, {"`a.b`"}, {"s.x", "s.`y.z`"}, {"s", "s.x"}} {
		require.NoError(t, checkColumns(good, schema), "%v", good)
	}
	for _, c := range []struct {
		columns []string
		name    string
		message string
		missing bool
	}{
		{[]string{"id", "nope"}, "Columns[1]", `column "nope" does not exist; the dataset has id, title`, true},
		{[]string{"ID"}, "Columns[0]", "does not exist", true},
		{[]string{"a.b"}, "Columns[0]", "does not exist", true},
		{[]string{"s.nope"}, "Columns[0]", "does not exist", true},
		{[]string{"id.x"}, "Columns[0]", "does not exist", true},
		{[]string{"title", "id", "`title`"}, "Columns[2]", "requested twice, first as Columns[0]", false},
		{[]string{"_rowid"}, "Columns[0]", "is in every result", false},
		{[]string{"_distance"}, "Columns[0]", "is in every result", false},
		{[]string{"`_query_id`"}, "Columns[0]", "is in every result", false},
		{[]string{"id", ""}, "Columns[1]", "not a field path", false},
	} {
		err := checkColumns(c.columns, schema)
		var a *ArgumentError
		require.ErrorAs(t, err, &a, "%v", c.columns)
		require.Equal(t, c.name, a.Name)
		require.ErrorContains(t, err, c.message)
		require.ErrorIs(t, err, binding.ErrInvalidArgument)
		if c.missing {
			require.ErrorIs(t, err, binding.ErrNotFound)
		}
	}
}
