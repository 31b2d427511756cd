package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow"
)

// OpenOptions says which version of a dataset to open, and how. The zero value opens the latest version with the credentials of the environment.
type OpenOptions struct {
	// Version is the exact version; 0 is the latest, resolved once. With Tag it is the version that the tag must have: if the tag has moved, Open fails
	// with ErrVersionGone.
	Version uint64
	Tag     string
	Branch  string // empty is the main branch; not together with Tag
	// StorageOptions configure the object store, in Lance's words (aws_access_key_id, ...).
	StorageOptions map[string]string
	Namespace      *Namespace // resolves the dataset by table id instead of by URI
	// Budgets of the caches in bytes; 0 is Lance's default.
	IndexCacheBytes, MetadataCacheBytes uint64
}

// String gives the options with secret values left out.
func (o OpenOptions) String() string {
	text := fmt.Sprintf("version:%d tag:%q branch:%q storage_options:%v index_cache_bytes:%d metadata_cache_bytes:%d",
		o.Version, o.Tag, o.Branch, redactOptions(o.StorageOptions), o.IndexCacheBytes, o.MetadataCacheBytes)
	if o.Namespace != nil {
		text += " namespace:{" + o.Namespace.String() + "}"
	}
	return text
}

// GoString is [OpenOptions.String].
func (o OpenOptions) GoString() string { return o.String() }

// LogValue is [OpenOptions.String].
func (o OpenOptions) LogValue() slog.Value { return slog.StringValue(o.String()) }

func (o OpenOptions) clone() OpenOptions {
	o.StorageOptions = maps.Clone(o.StorageOptions)
	o.Namespace = o.Namespace.clone()
	return o
}

// Namespace names a table in a Lance namespace.
type Namespace struct {
	Impl       string            `json:"impl"` // dir or rest
	Properties map[string]string `json:"properties,omitempty"`
	TableID    []string          `json:"table_id"`
}

// String gives the namespace with secret properties left out.
func (n *Namespace) String() string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("impl:%q properties:%v table_id:%q", n.Impl, redactOptions(n.Properties), n.TableID)
}

// GoString is [Namespace.String].
func (n *Namespace) GoString() string { return n.String() }

// LogValue is [Namespace.String].
func (n *Namespace) LogValue() slog.Value { return slog.StringValue(n.String()) }

func (n *Namespace) clone() *Namespace {
	if n == nil {
		return nil
	}
	return &Namespace{Impl: n.Impl, Properties: maps.Clone(n.Properties), TableID: slices.Clone(n.TableID)}
}

func (n *Namespace) properties() map[string]string {
	if n == nil {
		return nil
	}
	return n.Properties
}

// Dataset is one exact version of a dataset, with its caches. It is safe for concurrent use. Close it when done.
type Dataset struct {
	*handle
	uri     string
	options OpenOptions
	backup  runtime.Cleanup

	description flight[Description]
	columns     sync.Map // path to *flight[ColumnInfo]
	schema      atomic.Pointer[arrow.Schema]
}

type openRequest struct {
	URI                string            `json:"uri"`
	Version            uint64            `json:"version,omitempty"`
	Tag                string            `json:"tag,omitempty"`
	Branch             string            `json:"branch,omitempty"`
	StorageOptions     map[string]string `json:"storage_options,omitempty"`
	Namespace          *Namespace        `json:"namespace,omitempty"`
	IndexCacheBytes    uint64            `json:"index_cache_bytes,omitempty"`
	MetadataCacheBytes uint64            `json:"metadata_cache_bytes,omitempty"`
}

// Open opens one version of the dataset at uri, or of the namespace's table, in which case uri may be empty. Errors are ErrNotFound where there is no
// dataset, tag, branch, or version so far, ErrVersionGone for a version that has been cleaned up, ErrIO, and those of [Load].
func Open(ctx context.Context, uri string, o OpenOptions) (*Dataset, error) {
	if err := checkContext(ctx, "open"); err != nil {
		return nil, err
	}
	l, err := current()
	if err != nil {
		return nil, err
	}
	return l.open(ctx, uri, o)
}

func (l *library) open(ctx context.Context, uri string, o OpenOptions) (*Dataset, error) {
	const op = "open"
	switch {
	case uri == "" && o.Namespace == nil:
		return nil, invalid(op, "neither a uri nor a namespace is given")
	case o.Tag != "" && o.Branch != "":
		return nil, invalid(op, "both tag %q and branch %q are given; a tag names its branch itself", o.Tag, o.Branch)
	}
	request := openRequest{
		URI: uri, Version: o.Version, Tag: o.Tag, Branch: o.Branch, StorageOptions: o.StorageOptions, Namespace: o.Namespace,
		IndexCacheBytes: o.IndexCacheBytes, MetadataCacheBytes: o.MetadataCacheBytes,
	}
	if o.Tag != "" {
		request.Version = 0
	}
	text, err := json.Marshal(request)
	if err != nil {
		return nil, invalid(op, "options cannot be encoded: %v", err)
	}
	hide := newSecrets(uri, o.StorageOptions, o.Namespace.properties())
	var native *C.LanceFfiDataset
	err = l.call(ctx, op, hide, func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t {
		native = C.lk_dataset_open(l.entries, bytesPointer(text), C.size_t(len(text)), cancel, failure)
		return failure.code
	})
	if err != nil {
		return nil, missing(err, hide.redact(uri))
	}
	d := &Dataset{handle: newHandle(l, native, hide), uri: uri, options: o.clone()}
	d.options.Version = uint64(C.lk_dataset_version(l.entries, native))
	if o.Tag != "" && o.Version != 0 && o.Version != d.options.Version {
		d.close()
		return nil, &Error{
			Op: op, Code: CodeVersionGone,
			Message: fmt.Sprintf("tag %q of %q names version %d now, not %d", o.Tag, hide.redact(uri), d.options.Version, o.Version),
		}
	}
	d.backup = runtime.AddCleanup(d, (*handle).close, d.handle)
	return d, nil
}

// missing names a dataset that is not there as the caller does: Lance gives its path within the store, which has neither scheme nor bucket nor
// a leading slash.
func missing(err error, uri string) error {
	var e *Error
	if uri != "" && errors.As(err, &e) && e.Code == CodeNotFound && strings.HasPrefix(e.Message, "Dataset at path ") {
		e.Message = fmt.Sprintf("no dataset is at %q; check the location", uri)
	}
	return err
}

// acquire and isClosed take a Dataset that [Open] did not make for a closed one.
func (d *Dataset) acquire(op string) error {
	if d == nil || d.handle == nil {
		return closed(op)
	}
	return d.handle.acquire(op)
}

func (d *Dataset) isClosed() bool { return d == nil || d.handle == nil || d.handle.isClosed() }

// URI is the URI given to [Open].
func (d *Dataset) URI() string { return d.uri }

// Version is the version of this handle; it never changes.
func (d *Dataset) Version() uint64 { return d.options.Version }

// String gives the URI and the version, without secrets.
func (d *Dataset) String() string { return fmt.Sprintf("%s@%d", d.hide.redact(d.uri), d.Version()) }

// GoString is [Dataset.String]: the fields hold the storage options.
func (d *Dataset) GoString() string { return d.String() }

// OpenOptions opens the same version elsewhere. It contains the storage options, secrets included; its String does not.
func (d *Dataset) OpenOptions() OpenOptions { return d.options.clone() }

// Close frees the native dataset after the calls in flight have returned. It does nothing the second time, and never fails.
func (d *Dataset) Close() error {
	if d == nil || d.handle == nil { // a deferred Close after a failed Open
		return nil
	}
	d.backup.Stop()
	d.close()
	<-d.freed
	return nil
}

// Schema is the Arrow schema of the dataset.
func (d *Dataset) Schema() (*arrow.Schema, error) {
	const op = "schema"
	if err := d.acquire(op); err != nil {
		return nil, err
	}
	defer d.release()
	if s := d.schema.Load(); s != nil {
		return s, nil
	}
	s, err := d.lib.readSchema(op, d.hide, d.native)
	if err != nil {
		return nil, err
	}
	d.schema.Store(s)
	return s, nil
}
