// Package s3 serves an S3-compatible object store on loopback for tests.
package s3

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// Bucket is the one bucket of a Server.
const Bucket = "lanceknn"

// Server is an object store in memory. It knows requests by the access key that signed them.
type Server struct {
	URL string

	backend gofakes3.Backend

	mu     sync.Mutex
	keys   map[string]bool
	counts map[string]int

	delay    atomic.Int64
	inFlight atomic.Int64
	requests atomic.Int64
}

// Start serves until the end of the test and accepts the given access keys.
func Start(t testing.TB, keys ...string) *Server {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket(Bucket))
	s := &Server{backend: backend, keys: map[string]bool{}, counts: map[string]int{}}
	for _, k := range keys {
		s.keys[k] = true
	}
	store := gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
		s.requests.Add(1)
		if !s.admit(accessKey(r)) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code><Message>unknown key</Message></Error>`))
			return
		}
		if d := time.Duration(s.delay.Load()); d > 0 {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
				return
			}
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// accessKey reads the key out of a signature of version 4: "... Credential=KEY/date/region/s3/aws4_request, ...".
func accessKey(r *http.Request) string {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	return key
}

func (s *Server) admit(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[key]++
	return s.keys[key]
}

// Revoke refuses an access key from now on.
func (s *Server) Revoke(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

// Count is the number of requests signed with a key so far.
func (s *Server) Count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[key]
}

// Change replaces what an object holds, behind the back of everyone who wrote it. The object is the only one whose name starts and ends so.
func (s *Server) Change(t testing.TB, prefix, suffix string, change func([]byte) []byte) {
	t.Helper()
	found, err := s.backend.ListBucket(Bucket, &gofakes3.Prefix{HasPrefix: true, Prefix: prefix}, gofakes3.ListBucketPage{})
	require.NoError(t, err)
	var names []string
	for _, object := range found.Contents {
		if strings.HasSuffix(object.Key, suffix) {
			names = append(names, object.Key)
		}
	}
	require.Len(t, names, 1, "%s...%s", prefix, suffix)
	object, err := s.backend.GetObject(Bucket, names[0], nil)
	require.NoError(t, err)
	held, err := io.ReadAll(object.Contents)
	require.NoError(t, err)
	require.NoError(t, object.Contents.Close())
	held = change(held)
	_, err = s.backend.PutObject(Bucket, names[0], object.Metadata, bytes.NewReader(held), int64(len(held)), nil)
	require.NoError(t, err)
}

// Requests is the number of requests so far, and InFlight of those not yet answered.
func (s *Server) Requests() int64 { return s.requests.Load() }

// InFlight is the number of requests being answered.
func (s *Server) InFlight() int64 { return s.inFlight.Load() }

// Delay makes every answer wait.
func (s *Server) Delay(d time.Duration) { s.delay.Store(int64(d)) }

// URI of a dataset in the store.
func (s *Server) URI(name string) string { return "s3://" + Bucket + "/" + name }

// Options are the storage options to use the store with a key.
func (s *Server) Options(key, secret string) map[string]string {
	return map[string]string{
		"aws_access_key_id":     key,
		"aws_secret_access_key": secret,
		"aws_endpoint":          s.URL,
		"aws_region":            "us-east-1",
		"allow_http":            "true",
	}
}
