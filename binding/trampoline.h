#ifndef LANCEKNN_TRAMPOLINE_H
#define LANCEKNN_TRAMPOLINE_H

#include "lance_ffi.h"

/* The entries of one loaded library. Opaque to Go, so that no call pays for a pointer check of its function pointers. */
typedef struct lk_library lk_library;

/* For the life of the process; NULL when out of memory. */
lk_library *lk_library_new(void);
/* The name of symbol i, NULL past the last. */
const char *lk_symbol_name(size_t i);
void lk_library_set(lk_library *lib, size_t i, uintptr_t address);
/* With the static library: fills every entry. */
void lk_library_link(lk_library *lib);

/* Native memory as Go sees it: addresses are integers, because Rust hands out small dangling pointers for empty buffers and the Go runtime
   ends the process when it meets one in a pointer variable. */
typedef struct lk_error { int32_t code; uintptr_t message; size_t len; size_t cap; } lk_error;
typedef struct lk_buffer { uintptr_t ptr; size_t len; size_t cap; } lk_buffer;
typedef struct lk_candidates { uintptr_t query; uintptr_t distance; uintptr_t row_id; size_t len; LanceFfiStats stats; } lk_candidates;

/* Each copies into the caller's memory (of the length given by the struct; may be NULL when that is 0) and frees the native side. */
void lk_error_take(const lk_library *lib, const lk_error *error, uint8_t *message);
void lk_buffer_take(const lk_library *lib, const lk_buffer *buffer, uint8_t *bytes);
void lk_candidates_take(const lk_library *lib, const lk_candidates *candidates, uint32_t *query, float *distance, uint64_t *row_id);

uint32_t lk_abi_version(const lk_library *lib);
LanceFfiSlice lk_build_info(const lk_library *lib);
int64_t lk_live_handles(const lk_library *lib);

LanceFfiCancel *lk_cancel_new(const lk_library *lib);
void lk_cancel_trigger(const lk_library *lib, const LanceFfiCancel *cancel);
void lk_cancel_free(const lk_library *lib, LanceFfiCancel *cancel);

/* NULL on error. */
LanceFfiDataset *lk_dataset_open(const lk_library *lib, const uint8_t *request, size_t len, const LanceFfiCancel *cancel, lk_error *error);
void lk_dataset_close(const lk_library *lib, LanceFfiDataset *dataset);
uint64_t lk_dataset_version(const lk_library *lib, const LanceFfiDataset *dataset);
int32_t lk_dataset_schema(const lk_library *lib, const LanceFfiDataset *dataset, struct ArrowSchema *out, lk_error *error);
int32_t lk_dataset_describe(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, lk_buffer *out, lk_error *error);
int32_t lk_dataset_column(const lk_library *lib, const LanceFfiDataset *dataset, const uint8_t *path, size_t len, lk_buffer *out, lk_error *error);

/* What of a search holds no pointer; the meanings are those of LanceFfiSearch. */
typedef struct lk_search_options {
  uint32_t value_type;
  uint32_t vectors_per_query;
  size_t query_count;
  size_t dim;
  uint64_t k;
  uint64_t refine_factor;
  int64_t nprobes;
  int64_t min_nprobes;
  int64_t max_nprobes;
  double search_effort;
  int64_t ef;
  float distance_lower;
  float distance_upper;
  uint32_t metric;
  int32_t query_parallelism;
  uint32_t approx_mode;
  uint32_t use_index;
  uint32_t path;
  uint32_t probing;
  uint32_t threads;
} lk_search_options;

/* Searches into candidates or, when that is NULL, asks for the eligibility of the same request. The pointers arrive one by one: a struct of them
   in Go memory would have to be pinned. */
int32_t lk_dataset_search(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel,
                          const uint8_t *column, size_t column_len, const uint8_t *filter, size_t filter_len,
                          const uint8_t *segments, size_t segment_count, const uint32_t *fragments, size_t fragment_count,
                          const uint8_t *vectors, const float *bounds, lk_search_options options,
                          lk_candidates *candidates, lk_buffer *eligibility, lk_error *error);

int32_t lk_dataset_refine(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel,
                          const uint8_t *column, size_t column_len, uint32_t metric, const uint8_t *vectors, uint32_t value_type,
                          uint32_t vectors_per_query, size_t query_count, size_t dim, const uint32_t *query, const uint64_t *row_id, size_t len,
                          float *distances, lk_error *error);

int32_t lk_dataset_take(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, const uint64_t *row_ids, size_t len,
                        const uint8_t *columns, size_t columns_len, struct ArrowArray *array, struct ArrowSchema *schema, lk_error *error);
/* An empty array that owns nothing yet, zeroed; lk_array_free releases what it then owns. */
struct ArrowArray *lk_array_new(void);
void lk_array_free(struct ArrowArray *array);
struct ArrowSchema *lk_schema_new(void);
void lk_schema_free(struct ArrowSchema *schema);
/* Makes an array safe for Go and for arrow/go v17's importer, which crashes on what the C data interface allows: see trampoline.c. */
void lk_array_normalise(struct ArrowArray *array);

/* Entries that take one JSON (or SQL) text and differ only in what they give back. */
enum lk_entry {
  LK_PREWARM,
  LK_DELETE,
  LK_COMPACT,
  LK_INDEX_CREATE,
  LK_INDEX_CREATE_SEGMENT,
  LK_INDEX_COMMIT_SEGMENTS,
  LK_SCALAR_INDEX_CREATE,
  LK_TAG,
};
int32_t lk_request(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, enum lk_entry entry,
                   const uint8_t *request, size_t len, uint64_t *version, lk_buffer *reply, lk_error *error);

/* NULL on error. */
LanceFfiWriter *lk_writer_open(const lk_library *lib, const uint8_t *request, size_t len, lk_error *error);
int32_t lk_writer_push(const lk_library *lib, LanceFfiWriter *writer, const LanceFfiCancel *cancel, const uint8_t *ipc, size_t len, lk_error *error);
int32_t lk_writer_finish(const lk_library *lib, LanceFfiWriter *writer, const LanceFfiCancel *cancel, uint64_t *version, lk_error *error);
void lk_writer_free(const lk_library *lib, LanceFfiWriter *writer);

#endif
