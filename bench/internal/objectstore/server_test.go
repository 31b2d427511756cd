package objectstore

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, url, rng string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	if rng != "" {
		request.Header.Set("Range", rng)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body), response.Header
}

func TestServer_RangesDelayAndCounts(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "table", "data"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "table", "data", "a.lance"), []byte("0123456789"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "table", "b"), []byte("bb"), 0o600))
	const delay = 30 * time.Millisecond
	s, err := Serve(root, delay)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	base := s.StorageOptions()["aws_endpoint"] + "/" + Bucket

	begin := time.Now()
	status, body, header := get(t, base+"/table/data/a.lance", "bytes=2-4")
	require.GreaterOrEqual(t, time.Since(begin), delay)
	require.Equal(t, http.StatusPartialContent, status)
	require.Equal(t, "234", body)
	require.Equal(t, "bytes 2-4/10", header.Get("Content-Range"))
	requests, bytes := s.Counts()
	require.EqualValues(t, 1, requests)
	require.EqualValues(t, 3, bytes)

	_, body, _ = get(t, base+"/table/data/a.lance", "bytes=-3")
	require.Equal(t, "789", body)
	_, body, _ = get(t, base+"/table/data/a.lance", "")
	require.Equal(t, "0123456789", body)
	status, _, _ = get(t, base+"/table/none", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _, _ = get(t, base+"/table/data", "")
	require.Equal(t, http.StatusNotFound, status, "a folder is not an object")

	_, body, _ = get(t, base+"?list-type=2&prefix=table/&delimiter=/", "")
	require.Contains(t, body, "<Key>table/b</Key>")
	require.Contains(t, body, "<Prefix>table/data/</Prefix>")
	require.NotContains(t, body, "a.lance")
}
