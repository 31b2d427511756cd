package faults

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

// TestNamespace: a table is opened by its id, from a directory and from a REST server, and searched as by its URI.
func TestNamespace(t *testing.T) {
	root := t.TempDir()
	table := random(40, 600, 8)
	py := pylance.Shared(t)
	var written struct{ URI string }
	record := table.Record()
	defer record.Release()
	require.NoError(t, py.Call("namespace_write", pylance.Args{"root": root, "table_id": []string{"vectors"}, "ipc": pylance.IPC(record)}, &written))
	d := lab.Existing(t, written.URI, table)
	d.Index(lab.Index{Partitions: 2})
	var server struct{ Port int }
	require.NoError(t, py.Call("rest_namespace", pylance.Args{"root": root}, &server))

	for name, properties := range map[string]map[string]string{
		"dir":  {"root": root},
		"rest": {"uri": fmt.Sprintf("http://127.0.0.1:%d", server.Port), "header.authorization": "Bearer " + secret},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(id ...string) binding.OpenOptions {
				return binding.OpenOptions{Namespace: &binding.Namespace{Impl: name, Properties: properties, TableID: id}}
			}
			ds := lab.Open(t, "", open("vectors"))
			require.Equal(t, uint64(2), ds.Version())
			a := lab.Ask{Queries: queries(41, 3, 8), K: 10}
			a.Query.NProbes = 2
			a.Exact(t, d, ds, d.Live(0))
			withoutSecrets(t, "options", fmt.Sprintf("%v %#v", ds.OpenOptions(), ds.OpenOptions().Namespace))
			plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), a.Options)
			require.NoError(t, err)
			withoutSecrets(t, "plan", plan.Explain()+fmt.Sprintf("%+v", plan.Tasks()))
			b := a
			b.Options.Executor, b.Options.TaskCredentials = elsewhere{t}, true
			b.Exact(t, d, ds, d.Live(0))

			old := open("vectors")
			old.Version = 1
			require.Equal(t, uint64(1), lab.Open(t, "", old).Version())
			old.Version = 99
			_, err = binding.Open(t.Context(), "", old)
			require.ErrorIs(t, err, binding.ErrNotFound)
			_, err = binding.Open(t.Context(), "", open("missing"))
			require.ErrorIs(t, err, binding.ErrNotFound)
			require.ErrorContains(t, err, "missing")
			withoutSecrets(t, "error", err.Error())
			_, err = binding.Open(t.Context(), "", open())
			require.Error(t, err)
		})
	}
	t.Run("unknown", func(t *testing.T) {
		_, err := binding.Open(t.Context(), "", binding.OpenOptions{Namespace: &binding.Namespace{Impl: "hive9", Properties: map[string]string{"root": root}, TableID: []string{"vectors"}}})
		require.Error(t, err)
		require.ErrorContains(t, err, "hive9")
		_, err = binding.Open(t.Context(), "", binding.OpenOptions{Namespace: &binding.Namespace{Impl: "rest", Properties: map[string]string{"uri": "http://127.0.0.1:9", "header.authorization": secret}, TableID: []string{"vectors"}}})
		require.Error(t, err)
		withoutSecrets(t, "error", err.Error())
	})
	t.Run("write", func(t *testing.T) {
		for _, name := range []string{"dir", "rest"} {
			properties := map[string]string{"root": root}
			if name == "rest" {
				properties = map[string]string{"uri": fmt.Sprintf("http://127.0.0.1:%d", server.Port)}
			}
			ns := &binding.Namespace{Impl: name, Properties: properties, TableID: []string{"own_" + name}}
			lab.WriteInto(t, binding.WriteOptions{Namespace: ns}, random(42, 100, 8))
			ds := lab.Open(t, "", binding.OpenOptions{Namespace: ns})
			got, _, err := lab.Search(ds, lab.Ask{Queries: random(42, 100, 8).Vectors[:1], K: 1}.Question(t, d), scan)
			require.NoError(t, err)
			require.Equal(t, []int64{0}, lab.IDs(got[0]))
		}
	})
}
