package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/s3"
)

const (
	key    = "ACCESSKEYOFTHETEST01"
	secret = "wJalrXUtnFEMIK7MDENGbPxRfiCYSECRETVALUE1"
)

// buffer is a logger and what it wrote, at every level.
func buffer() (*slog.Logger, *lockedBuffer) {
	b := &lockedBuffer{}
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})), b
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func withoutSecrets(t *testing.T, where, text string) {
	t.Helper()
	for _, s := range []string{secret, key, secret[:20]} {
		require.NotContains(t, text, s, where)
	}
}

// TestStore_S3: searching in an object store through storage options gives the same answers, in every way, by tasks run
// elsewhere too, and neither errors, logs, plans nor tasks show a credential.
func TestStore_S3(t *testing.T) {
	store := s3.Start(t, key)
	options := store.Options(key, secret)
	d := lab.InStore(t, store.URI("folder/t.lance"), options, random(5, 900, 8), lab.Rows(300))
	d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}}})
	ds, rows := d.Open(0), d.Live(0)
	a := lab.Ask{Queries: queries(6, 3, 8), K: 10, Options: scan}
	a.Query.NProbes = 2
	log, text := buffer()
	a.Options.Logger = log
	a.Exact(t, d, ds, rows)
	a.Filter, a.Keep = "id % 3 = 0", func(r oracle.Row) bool { return r.ID%3 == 0 }
	a.Exact(t, d, ds, rows)

	for _, way := range lab.FewWays() {
		plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(a.Options))
		require.NoError(t, err)
		withoutSecrets(t, "plan", plan.Explain())
		withoutSecrets(t, "plan value", fmt.Sprintf("%v %+v", plan.Tasks(), plan.Tasks()))
		for _, task := range plan.Tasks() {
			encoded, err := json.Marshal(task)
			require.NoError(t, err)
			withoutSecrets(t, "task", string(encoded)+task.String()+fmt.Sprintf("%#v", task))
		}
	}
	withoutSecrets(t, "options", fmt.Sprintf("%v %+v %#v", ds.OpenOptions(), ds.OpenOptions(), ds.OpenOptions()))

	t.Run("elsewhere", func(t *testing.T) {
		b := a
		b.Options.Executor, b.Options.TaskCredentials = elsewhere{t}, true
		b.Exact(t, d, ds, rows)
		b.Options.TaskCredentials = false // a worker without credentials of its own cannot open the dataset
		b.Ways = lab.FewWays()[:1]
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, _, err := lab.SearchContext(ctx, ds, b.Question(t, d), b.Options)
		require.Error(t, err)
		withoutSecrets(t, "error", err.Error())
	})
	t.Run("errors", func(t *testing.T) {
		failing := func(name string, change func(o map[string]string)) {
			o := store.Options(key, secret)
			change(o)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := binding.Open(ctx, d.URI, binding.OpenOptions{StorageOptions: o})
			require.Error(t, err, name)
			for _, form := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
				withoutSecrets(t, name, form)
			}
		}
		failing("refused", func(o map[string]string) { o["aws_access_key_id"] = key + "X"; o["aws_secret_access_key"] = secret })
		failing("no endpoint", func(o map[string]string) { o["aws_endpoint"] = "http://127.0.0.1:9" })
		failing("key in endpoint", func(o map[string]string) { o["aws_endpoint"] = "http://" + key + ":" + secret + "@127.0.0.1:9" })
		failing("bad boolean", func(o map[string]string) { o["allow_http"] = secret })
		failing("secret as region", func(o map[string]string) { o["aws_region"] = ""; o["aws_endpoint"] = "not a url " + secret })
	})
	t.Run("write", func(t *testing.T) {
		uri := store.URI("own.lance")
		own := lab.WriteTo(t, uri, options, random(7, 300, 8), binding.WriteOptions{MaxRowsPerFile: 100})
		b := lab.Ask{Queries: queries(8, 2, 8), K: 5, Options: scan}
		b.Exact(t, own, own.Open(0), own.Live(0))
		_, err := own.Open(0).Delete(t.Context(), "id < 100")
		require.NoError(t, err)
		b.Exact(t, own, own.Open(0), own.Live(0))
	})
	withoutSecrets(t, "log", text.String())
	require.NotEmpty(t, text.String(), "the logger was used")
}

// TestStore_NothingIsPrinted: whatever fails in the native core, the process's own output stays empty.
func TestStore_NothingIsPrinted(t *testing.T) {
	out := lab.Child(t, func() {
		store := s3.Start(t, key)
		d := lab.InStore(t, store.URI("t.lance"), store.Options(key, secret), random(9, 300, 8), lab.Rows(100))
		d.Index(lab.Index{Groups: [][]int{{0}, {1}, {2}}})
		ds := d.Open(0)
		a := lab.Ask{Queries: queries(10, 2, 8), K: 5}
		fmt.Println("BEGIN")
		_, _, err := lab.Search(ds, a.Question(t, d), distributed.Options{})
		require.NoError(t, err)
		store.Revoke(key)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = binding.Open(ctx, d.URI, binding.OpenOptions{StorageOptions: store.Options(key, secret)})
		require.Error(t, err)
		a.Filter = "nosuch = 1"
		_, _, err = lab.Search(ds, a.Question(t, d), distributed.Options{})
		require.Error(t, err)
		fmt.Println("END")
	}, "RUST_BACKTRACE=0")
	if lab.InChild() {
		return
	}
	_, rest, found := strings.Cut(out, "BEGIN\n")
	require.True(t, found, out)
	between, _, found := strings.Cut(rest, "END\n")
	require.True(t, found, out)
	require.Empty(t, between, "printed by the library")
	withoutSecrets(t, "output", out)
}

// TestStore_Environment: without storage options the credentials of the environment are used.
func TestStore_Environment(t *testing.T) {
	store := s3.Start(t, key)
	d := lab.InStore(t, store.URI("t.lance"), store.Options(key, secret), random(11, 200, 8))
	lab.Child(t, func() {
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			require.NotEmpty(t, os.Getenv(name))
		}
		ds := lab.Open(t, os.Getenv("LANCEKNN_TEST_URI"), binding.OpenOptions{})
		require.Equal(t, uint64(1), ds.Version())
	}, "LANCEKNN_TEST_URI="+d.URI, "AWS_ACCESS_KEY_ID="+key, "AWS_SECRET_ACCESS_KEY="+secret, "AWS_ENDPOINT_URL="+store.URL, "AWS_ENDPOINT="+store.URL, "AWS_REGION=us-east-1", "AWS_ALLOW_HTTP=true", "ALLOW_HTTP=true")
}
