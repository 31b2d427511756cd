// Package objectstore serves a local folder as a read-only S3 bucket on the loopback interface, with a fixed delay before each answer.
package objectstore

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/johannesboyne/gofakes3"
)

// Bucket is the name under which the folder is served.
const Bucket = "bench"

// Server counts what it is asked for, so that requests are counted the same way for every client.
type Server struct {
	listener net.Listener
	http     *http.Server
	delay    time.Duration
	requests atomic.Int64
	bytes    atomic.Int64
	done     chan error
}

// Serve answers requests for the files below root, each after delay.
func Serve(root string, delay time.Duration) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, delay: delay, done: make(chan error, 1)}
	s3 := gofakes3.New(&folder{root: root}).Server()
	s.http = &http.Server{Handler: s.measured(s3)}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

func (s *Server) measured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(s.delay)
		s.requests.Add(1)
		next.ServeHTTP(&counter{w, &s.bytes}, r)
	})
}

type counter struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Counts returns the requests answered and the body bytes sent so far.
func (s *Server) Counts() (requests, bytes int64) { return s.requests.Load(), s.bytes.Load() }

// StorageOptions are what an object-store client needs to reach the server.
func (s *Server) StorageOptions() map[string]string {
	return map[string]string{
		"aws_endpoint":                     "http://" + s.listener.Addr().String(),
		"aws_access_key_id":                "bench",
		"aws_secret_access_key":            "bench",
		"aws_region":                       "us-east-1",
		"allow_http":                       "true",
		"aws_virtual_hosted_style_request": "false",
	}
}

// Close ends the server and every connection to it.
func (s *Server) Close() error {
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// folder is a gofakes3 backend over files on disk. The backends that gofakes3 ships hash a whole file for each request to it, which would be
// measured as storage latency.
type folder struct {
	root string
}

var errReadOnly = gofakes3.ErrNotImplemented

func (f *folder) find(bucket, key string) (string, fs.FileInfo, error) {
	if bucket != Bucket {
		return "", nil, gofakes3.BucketNotFound(bucket)
	}
	name := filepath.FromSlash(key)
	if !filepath.IsLocal(name) {
		return "", nil, gofakes3.KeyNotFound(key)
	}
	full := filepath.Join(f.root, name)
	info, err := os.Stat(full)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.IsDir()) {
		return "", nil, gofakes3.KeyNotFound(key)
	}
	return full, info, err
}

// etag stands for content that never changes while it is served.
func etag(key string, info fs.FileInfo) []byte {
	sum := make([]byte, 16)
	for i, c := range []byte(key) {
		sum[i%16] = sum[i%16]*31 + c
	}
	for i := range 8 {
		sum[i] ^= byte(info.Size() >> (8 * i))
	}
	return sum
}

func (f *folder) HeadObject(bucket, key string) (*gofakes3.Object, error) {
	_, info, err := f.find(bucket, key)
	if err != nil {
		return nil, err
	}
	return &gofakes3.Object{Name: key, Size: info.Size(), Hash: etag(key, info), Metadata: map[string]string{}, Contents: http.NoBody}, nil
}

func (f *folder) GetObject(bucket, key string, want *gofakes3.ObjectRangeRequest) (*gofakes3.Object, error) {
	full, info, err := f.find(bucket, key)
	if err != nil {
		return nil, err
	}
	span, err := want.Range(info.Size())
	if err != nil {
		return nil, err
	}
	file, err := os.Open(full)
	if err != nil {
		return nil, err
	}
	var body io.ReadCloser = file
	if span != nil {
		body = struct {
			io.Reader
			io.Closer
		}{io.NewSectionReader(file, span.Start, span.Length), file}
	}
	return &gofakes3.Object{Name: key, Size: info.Size(), Hash: etag(key, info), Metadata: map[string]string{}, Range: span, Contents: body}, nil
}

func (f *folder) ListBucket(bucket string, prefix *gofakes3.Prefix, _ gofakes3.ListBucketPage) (*gofakes3.ObjectList, error) {
	if bucket != Bucket {
		return nil, gofakes3.BucketNotFound(bucket)
	}
	list := gofakes3.NewObjectList()
	err := filepath.WalkDir(f.root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(f.root, full)
		if err != nil {
			return err
		}
		key := path.Clean(filepath.ToSlash(relative))
		var match gofakes3.PrefixMatch
		if !prefix.Match(key, &match) {
			return nil
		}
		if match.CommonPrefix {
			list.AddPrefix(match.MatchedPart)
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		list.Add(&gofakes3.Content{
			Key: key, Size: info.Size(), ETag: gofakes3.FormatETag(etag(key, info)), LastModified: gofakes3.NewContentTime(info.ModTime()),
		})
		return nil
	})
	return list, err
}

func (f *folder) ListBuckets() ([]gofakes3.BucketInfo, error) {
	return []gofakes3.BucketInfo{{Name: Bucket, CreationDate: gofakes3.NewContentTime(time.Unix(0, 0))}}, nil
}

func (f *folder) BucketExists(name string) (bool, error) { return name == Bucket, nil }
func (f *folder) CreateBucket(string) error              { return errReadOnly }
func (f *folder) DeleteBucket(string) error              { return errReadOnly }
func (f *folder) ForceDeleteBucket(string) error         { return errReadOnly }

func (f *folder) DeleteObject(string, string) (gofakes3.ObjectDeleteResult, error) {
	return gofakes3.ObjectDeleteResult{}, errReadOnly
}

func (f *folder) DeleteMulti(string, ...string) (gofakes3.MultiDeleteResult, error) {
	return gofakes3.MultiDeleteResult{}, errReadOnly
}

func (f *folder) PutObject(string, string, map[string]string, io.Reader, int64, *gofakes3.PutConditions) (gofakes3.PutObjectResult, error) {
	return gofakes3.PutObjectResult{}, errReadOnly
}

func (f *folder) CopyObject(string, string, string, string, map[string]string) (gofakes3.CopyObjectResult, error) {
	return gofakes3.CopyObjectResult{}, errReadOnly
}
