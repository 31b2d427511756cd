#ifndef LANCE_FFI_H
#define LANCE_FFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANCE_FFI_ABI_VERSION 1

/* Error codes: the value every fallible entry returns, and LanceFfiError.code. */
#define LANCE_FFI_OK 0
#define LANCE_FFI_INVALID_ARGUMENT 1
#define LANCE_FFI_NOT_FOUND 2
#define LANCE_FFI_VERSION_GONE 3
#define LANCE_FFI_CONFLICT 4
#define LANCE_FFI_IO 5
#define LANCE_FFI_CORRUPT 6
#define LANCE_FFI_UNSUPPORTED 7
#define LANCE_FFI_CANCELLED 8
#define LANCE_FFI_PANIC 9
#define LANCE_FFI_INTERNAL 10
#define LANCE_FFI_ALREADY_EXISTS 11

/* Element types of query vectors. */
#define LANCE_FFI_FLOAT16 1
#define LANCE_FFI_FLOAT32 2
#define LANCE_FFI_FLOAT64 3
#define LANCE_FFI_UINT8 4

/* Distance metrics; 0 = unset (the index's metric, else L2, or hamming for uint8). */
#define LANCE_FFI_METRIC_UNSET 0
#define LANCE_FFI_METRIC_L2 1
#define LANCE_FFI_METRIC_COSINE 2
#define LANCE_FFI_METRIC_DOT 3
#define LANCE_FFI_METRIC_HAMMING 4

/* LanceFfiSearch.approx_mode */
#define LANCE_FFI_APPROX_NORMAL 0
#define LANCE_FFI_APPROX_FAST 1
#define LANCE_FFI_APPROX_ACCURATE 2

/* LanceFfiSearch.path and LanceFfiStats.path */
#define LANCE_FFI_PATH_AUTO 0
#define LANCE_FFI_PATH_SCANNER 1
#define LANCE_FFI_PATH_DIRECT 2

/* LanceFfiSearch.probing */
#define LANCE_FFI_PROBING_AUTO 0        /* shared when nothing about probes is set, else per segment */
#define LANCE_FFI_PROBING_PER_SEGMENT 1 /* Lance's own rules, segment by segment */
#define LANCE_FFI_PROBING_SHARED 2      /* one budget over all segments */

struct ArrowArray;
struct ArrowSchema;

typedef struct LanceFfiDataset LanceFfiDataset;
typedef struct LanceFfiCancel LanceFfiCancel;
typedef struct LanceFfiWriter LanceFfiWriter;

/* Borrowed bytes, valid for the call. */
typedef struct LanceFfiSlice { const uint8_t *ptr; size_t len; } LanceFfiSlice;

/* Owned by the callee; freed with lance_ffi_error_free. message is UTF-8, not NUL-terminated. */
typedef struct LanceFfiError { int32_t code; uint8_t *message; size_t message_len; size_t message_cap; } LanceFfiError;

/* Owned bytes; freed with lance_ffi_buffer_free. */
typedef struct LanceFfiBuffer { uint8_t *ptr; size_t len; size_t cap; } LanceFfiBuffer;

typedef struct LanceFfiStats {
  uint32_t path;               /* LANCE_FFI_PATH_SCANNER or _DIRECT */
  uint32_t exact;              /* 1: distances are exact; 0: index approximations */
  uint32_t metric;             /* the metric used */
  uint32_t reserved;
  uint64_t segments_searched;  /* segments of which at least one partition was read, summed over queries */
  uint64_t partitions_ranked;
  uint64_t partitions_searched;
  uint64_t bytes_read;         /* from storage, by this call */
  uint64_t requests;           /* read requests to storage, by this call */
  uint64_t index_cache_hits;   /* opened indexes, masks and filters found warm */
  uint64_t index_cache_misses;
  uint64_t filter_nanos;
  uint64_t rank_nanos;
  uint64_t search_nanos;
  uint64_t total_nanos;
} LanceFfiStats;

/* Candidates of a search: `len` parallel elements, ordered by (query, distance, row id).
   Owned by the callee; freed with lance_ffi_candidates_free. */
typedef struct LanceFfiCandidates {
  uint32_t *query;
  float *distance;
  uint64_t *row_id;
  size_t len;
  LanceFfiStats stats;
} LanceFfiCandidates;

typedef struct LanceFfiSearch {
  LanceFfiSlice column;          /* field path, Lance's syntax (back-ticks quote) */
  LanceFfiSlice filter;          /* SQL, always a prefilter; empty = none */
  const uint8_t *segments;       /* 16 bytes each; with count 0 no restriction */
  size_t segment_count;
  const uint32_t *fragments;     /* fragment ids; with count 0 no restriction */
  size_t fragment_count;
  const void *vectors;           /* query_count x max(1, vectors_per_query) x dim values */
  uint32_t value_type;
  uint32_t vectors_per_query;    /* 0: one vector a query; n: a multivector column, n vectors a query */
  size_t query_count;
  size_t dim;
  uint64_t k;                    /* candidates wanted per query; clamped to live rows */
  uint64_t refine_factor;        /* 0: none; n: re-score k x n candidates exactly inside this call, return k */
  int64_t nprobes;               /* -1: unset; likewise the next two */
  int64_t min_nprobes;
  int64_t max_nprobes;
  double search_effort;          /* NaN: unset */
  int64_t ef;                    /* -1: unset */
  float distance_lower;          /* inclusive; NaN: unset */
  float distance_upper;          /* exclusive; NaN: unset */
  uint32_t metric;
  int32_t query_parallelism;
  uint32_t approx_mode;
  uint32_t use_index;            /* 0: flat search */
  uint32_t path;
  uint32_t probing;
  uint32_t threads;              /* 0: all cores */
  uint32_t reserved;
  const float *bounds;           /* nullable, query_count values: a k-th distance known from elsewhere, +Inf = none */
} LanceFfiSearch;

uint32_t lance_ffi_abi_version(void);
/* Static JSON: {"version","lance","target","target_cpu","rustc","features"}. Not freed. */
LanceFfiSlice lance_ffi_build_info(void);
/* Live native objects handed out and not yet freed (datasets, cancels, writers, errors, buffers, candidates). */
int64_t lance_ffi_live_handles(void);

void lance_ffi_error_free(LanceFfiError *error);
void lance_ffi_buffer_free(LanceFfiBuffer *buffer);
void lance_ffi_candidates_free(LanceFfiCandidates *candidates);

LanceFfiCancel *lance_ffi_cancel_new(void);
void lance_ffi_cancel_trigger(const LanceFfiCancel *cancel);
void lance_ffi_cancel_free(LanceFfiCancel *cancel);

/* Every entry below returns a code; on non-zero *error is filled and no out-parameter is. cancel may be NULL. */

/* request: {"uri":str,"version":u64?,"tag":str?,"branch":str?,"storage_options":{str:str}?,
   "namespace":{"impl":"dir"|"rest","properties":{str:str},"table_id":[str]}?,
   "index_cache_bytes":u64?,"metadata_cache_bytes":u64?} */
int32_t lance_ffi_dataset_open(LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiDataset **out, LanceFfiError *error);
void lance_ffi_dataset_close(LanceFfiDataset *dataset);
uint64_t lance_ffi_dataset_version(const LanceFfiDataset *dataset);
int32_t lance_ffi_dataset_schema(const LanceFfiDataset *dataset, struct ArrowSchema *out, LanceFfiError *error);
/* JSON, see CONTRACT. */
int32_t lance_ffi_dataset_describe(const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error);
/* JSON {"field_id":i32,"path":str,"value_type":"float16|float32|float64|uint8","dim":u32,"multivector":bool} or NOT_FOUND / INVALID_ARGUMENT. */
int32_t lance_ffi_dataset_column(const LanceFfiDataset *dataset, LanceFfiSlice path, LanceFfiBuffer *out, LanceFfiError *error);
int32_t lance_ffi_dataset_search(const LanceFfiDataset *dataset, const LanceFfiSearch *search, const LanceFfiCancel *cancel, LanceFfiCandidates *out, LanceFfiError *error);
/* JSON {"direct":bool,"reasons":[str]} for the same request, vectors not needed. */
int32_t lance_ffi_dataset_eligibility(const LanceFfiDataset *dataset, const LanceFfiSearch *search, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error);
/* Exact distances of given rows to given queries: out_distances[i] for (query[i], row_id[i]); NaN where the row has no vector.
   One storage request for the distinct rows. metric must be set. */
int32_t lance_ffi_dataset_refine(const LanceFfiDataset *dataset, LanceFfiSlice column, uint32_t metric, const void *vectors, uint32_t value_type, uint32_t vectors_per_query, size_t query_count, size_t dim, const uint32_t *query, const uint64_t *row_id, size_t len, float *out_distances, const LanceFfiCancel *cancel, LanceFfiError *error);
/* Rows in the order given. columns: JSON array of field paths. Arrow struct array + schema, into zeroed C memory. */
int32_t lance_ffi_dataset_take(const LanceFfiDataset *dataset, const uint64_t *row_ids, size_t len, LanceFfiSlice columns, const LanceFfiCancel *cancel, struct ArrowArray *out_array, struct ArrowSchema *out_schema, LanceFfiError *error);
/* Loads what a search of this column / these segments will need. request: {"column":str?,"index":str?,"segments":[uuid]?,"filter":str?} */
int32_t lance_ffi_dataset_prewarm(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiError *error);

/* These commit a new version and return it; the handle stays on its own. */
int32_t lance_ffi_dataset_delete(const LanceFfiDataset *dataset, LanceFfiSlice predicate, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error);
/* request: {"target_rows_per_fragment":u64?,"materialize_deletions":bool?,"defer_index_remap":bool?}; out JSON {"version","fragments_removed","fragments_added"} */
int32_t lance_ffi_dataset_compact(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error);
/* request: {"column","type","name"?,"metric"?,"partitions"?,"sub_vectors"?,"num_bits"?,"max_level"?,"m"?,"ef_construction"?,"sample_rate"?,"max_iterations"?,"replace"?:bool,"fragments":[u32]?}
   create: whole index, committed. create_segment: uncommitted segment over "fragments"; out is an opaque JSON text for commit. */
int32_t lance_ffi_index_create(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error);
int32_t lance_ffi_index_create_segment(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error);
/* request: {"name","column","segments":[<opaque JSON>...]} */
int32_t lance_ffi_index_commit_segments(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error);
/* Scalar index: request {"column","type":"BTREE"|"BITMAP","name"?,"replace"?} */
int32_t lance_ffi_scalar_index_create(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error);
/* request {"tag","version"}: create or move a tag */
int32_t lance_ffi_dataset_tag(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiError *error);

/* A writer takes one Arrow IPC stream in chunks of any size and commits on finish.
   request: {"uri","mode":"create"|"append"|"overwrite","max_rows_per_file"?,"max_rows_per_group"?,"stable_row_ids"?:bool,"data_storage_version"?,"storage_options"?,"namespace"?} */
int32_t lance_ffi_writer_open(LanceFfiSlice request, LanceFfiWriter **out, LanceFfiError *error);
int32_t lance_ffi_writer_push(LanceFfiWriter *writer, LanceFfiSlice ipc, const LanceFfiCancel *cancel, LanceFfiError *error);
/* Commits, returns the version. The writer must still be freed. */
int32_t lance_ffi_writer_finish(LanceFfiWriter *writer, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error);
/* Without finish nothing is committed. */
void lance_ffi_writer_free(LanceFfiWriter *writer);

#endif
