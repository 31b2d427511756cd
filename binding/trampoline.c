#include "trampoline.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Typed from the header, so that the compiler checks every call through the table. */
#define LK_SYMBOLS(X)                                                                                                              \
  X(lance_ffi_abi_version) X(lance_ffi_build_info) X(lance_ffi_live_handles)                                                        \
  X(lance_ffi_error_free) X(lance_ffi_buffer_free) X(lance_ffi_candidates_free)                                                     \
  X(lance_ffi_cancel_new) X(lance_ffi_cancel_trigger) X(lance_ffi_cancel_free)                                                      \
  X(lance_ffi_dataset_open) X(lance_ffi_dataset_close) X(lance_ffi_dataset_version) X(lance_ffi_dataset_schema)                     \
  X(lance_ffi_dataset_describe) X(lance_ffi_dataset_column) X(lance_ffi_dataset_search) X(lance_ffi_dataset_eligibility)            \
  X(lance_ffi_dataset_refine) X(lance_ffi_dataset_take) X(lance_ffi_dataset_prewarm) X(lance_ffi_dataset_delete)                    \
  X(lance_ffi_dataset_compact) X(lance_ffi_dataset_tag)                                                                             \
  X(lance_ffi_index_create) X(lance_ffi_index_create_segment) X(lance_ffi_index_commit_segments) X(lance_ffi_scalar_index_create)   \
  X(lance_ffi_writer_open) X(lance_ffi_writer_push) X(lance_ffi_writer_finish) X(lance_ffi_writer_free)

struct lk_library {
#define LK_FIELD(symbol) __typeof__(&symbol) symbol;
  LK_SYMBOLS(LK_FIELD)
  lk_library *next;
};

/* Libraries are for the life of the process, and only Go memory points to them: listed here, they are no leak to a leak checker. */
static lk_library *_Atomic libraries;

static const struct { const char *name; size_t offset; } symbols[] = {
#define LK_SYMBOL(symbol) {#symbol, offsetof(struct lk_library, symbol)},
    LK_SYMBOLS(LK_SYMBOL)
};

lk_library *lk_library_new(void) {
  lk_library *lib = calloc(1, sizeof(lk_library));
  if (lib == NULL) return NULL;
  lib->next = atomic_load(&libraries);
  while (!atomic_compare_exchange_weak(&libraries, &lib->next, lib)) {}
  return lib;
}

const char *lk_symbol_name(size_t i) { return i < sizeof(symbols) / sizeof(symbols[0]) ? symbols[i].name : NULL; }

void lk_library_set(lk_library *lib, size_t i, uintptr_t address) { memcpy((char *)lib + symbols[i].offset, &address, sizeof(address)); }

void lk_library_link(lk_library *lib) {
#ifdef LANCEKNN_STATIC
#define LK_LINK(symbol) lib->symbol = symbol;
  LK_SYMBOLS(LK_LINK)
#else
  (void)lib;
#endif
}

static int32_t fail(lk_error *out, int32_t code, LanceFfiError error) {
  if (code != LANCE_FFI_OK) *out = (lk_error){code, (uintptr_t)error.message, error.message_len, error.message_cap};
  return code;
}

static void give(lk_buffer *out, LanceFfiBuffer buffer) { *out = (lk_buffer){(uintptr_t)buffer.ptr, buffer.len, buffer.cap}; }

void lk_error_take(const lk_library *lib, const lk_error *error, uint8_t *message) {
  LanceFfiError native = {error->code, (uint8_t *)error->message, error->len, error->cap};
  if (error->len > 0) memcpy(message, native.message, error->len);
  lib->lance_ffi_error_free(&native);
}

void lk_buffer_take(const lk_library *lib, const lk_buffer *buffer, uint8_t *bytes) {
  LanceFfiBuffer native = {(uint8_t *)buffer->ptr, buffer->len, buffer->cap};
  if (buffer->len > 0) memcpy(bytes, native.ptr, buffer->len);
  lib->lance_ffi_buffer_free(&native);
}

void lk_candidates_take(const lk_library *lib, const lk_candidates *candidates, uint32_t *query, float *distance, uint64_t *row_id) {
  size_t len = candidates->len;
  LanceFfiCandidates native = {(uint32_t *)candidates->query, (float *)candidates->distance, (uint64_t *)candidates->row_id, len, candidates->stats};
  if (len > 0) {
    memcpy(query, native.query, len * sizeof(*query));
    memcpy(distance, native.distance, len * sizeof(*distance));
    memcpy(row_id, native.row_id, len * sizeof(*row_id));
  }
  lib->lance_ffi_candidates_free(&native);
}

uint32_t lk_abi_version(const lk_library *lib) { return lib->lance_ffi_abi_version(); }
LanceFfiSlice lk_build_info(const lk_library *lib) { return lib->lance_ffi_build_info(); }
int64_t lk_live_handles(const lk_library *lib) { return lib->lance_ffi_live_handles(); }

LanceFfiCancel *lk_cancel_new(const lk_library *lib) { return lib->lance_ffi_cancel_new(); }
void lk_cancel_trigger(const lk_library *lib, const LanceFfiCancel *cancel) { lib->lance_ffi_cancel_trigger(cancel); }
void lk_cancel_free(const lk_library *lib, LanceFfiCancel *cancel) { lib->lance_ffi_cancel_free(cancel); }

LanceFfiDataset *lk_dataset_open(const lk_library *lib, const uint8_t *request, size_t len, const LanceFfiCancel *cancel, lk_error *error) {
  LanceFfiDataset *dataset = NULL;
  LanceFfiError native = {0};
  int32_t code = lib->lance_ffi_dataset_open((LanceFfiSlice){request, len}, cancel, &dataset, &native);
  return fail(error, code, native) == LANCE_FFI_OK ? dataset : NULL;
}

void lk_dataset_close(const lk_library *lib, LanceFfiDataset *dataset) { lib->lance_ffi_dataset_close(dataset); }
uint64_t lk_dataset_version(const lk_library *lib, const LanceFfiDataset *dataset) { return lib->lance_ffi_dataset_version(dataset); }

int32_t lk_dataset_schema(const lk_library *lib, const LanceFfiDataset *dataset, struct ArrowSchema *out, lk_error *error) {
  LanceFfiError native = {0};
  return fail(error, lib->lance_ffi_dataset_schema(dataset, out, &native), native);
}

int32_t lk_dataset_describe(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, lk_buffer *out, lk_error *error) {
  LanceFfiError native = {0};
  LanceFfiBuffer buffer = {0};
  int32_t code = lib->lance_ffi_dataset_describe(dataset, cancel, &buffer, &native);
  give(out, buffer);
  return fail(error, code, native);
}

int32_t lk_dataset_column(const lk_library *lib, const LanceFfiDataset *dataset, const uint8_t *path, size_t len, lk_buffer *out, lk_error *error) {
  LanceFfiError native = {0};
  LanceFfiBuffer buffer = {0};
  int32_t code = lib->lance_ffi_dataset_column(dataset, (LanceFfiSlice){path, len}, &buffer, &native);
  give(out, buffer);
  return fail(error, code, native);
}

int32_t lk_dataset_search(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel,
                          const uint8_t *column, size_t column_len, const uint8_t *filter, size_t filter_len,
                          const uint8_t *segments, size_t segment_count, const uint32_t *fragments, size_t fragment_count,
                          const uint8_t *vectors, const float *bounds, lk_search_options options,
                          lk_candidates *candidates, lk_buffer *eligibility, lk_error *error) {
  LanceFfiError native = {0};
  LanceFfiSearch search = {
      .column = {column, column_len},
      .filter = {filter, filter_len},
      .segments = segments,
      .segment_count = segment_count,
      .fragments = fragments,
      .fragment_count = fragment_count,
      .vectors = vectors,
      .value_type = options.value_type,
      .vectors_per_query = options.vectors_per_query,
      .query_count = options.query_count,
      .dim = options.dim,
      .k = options.k,
      .refine_factor = options.refine_factor,
      .nprobes = options.nprobes,
      .min_nprobes = options.min_nprobes,
      .max_nprobes = options.max_nprobes,
      .search_effort = options.search_effort,
      .ef = options.ef,
      .distance_lower = options.distance_lower,
      .distance_upper = options.distance_upper,
      .metric = options.metric,
      .query_parallelism = options.query_parallelism,
      .approx_mode = options.approx_mode,
      .use_index = options.use_index,
      .path = options.path,
      .probing = options.probing,
      .threads = options.threads,
      .bounds = bounds,
  };
  if (candidates == NULL) {
    LanceFfiBuffer buffer = {0};
    int32_t code = lib->lance_ffi_dataset_eligibility(dataset, &search, cancel, &buffer, &native);
    give(eligibility, buffer);
    return fail(error, code, native);
  }
  LanceFfiCandidates found = {0};
  int32_t code = lib->lance_ffi_dataset_search(dataset, &search, cancel, &found, &native);
  *candidates = (lk_candidates){(uintptr_t)found.query, (uintptr_t)found.distance, (uintptr_t)found.row_id, found.len, found.stats};
  return fail(error, code, native);
}

int32_t lk_dataset_refine(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel,
                          const uint8_t *column, size_t column_len, uint32_t metric, const uint8_t *vectors, uint32_t value_type,
                          uint32_t vectors_per_query, size_t query_count, size_t dim, const uint32_t *query, const uint64_t *row_id, size_t len,
                          float *distances, lk_error *error) {
  LanceFfiError native = {0};
  int32_t code = lib->lance_ffi_dataset_refine(dataset, (LanceFfiSlice){column, column_len}, metric, vectors, value_type, vectors_per_query,
                                               query_count, dim, query, row_id, len, distances, cancel, &native);
  return fail(error, code, native);
}

int32_t lk_dataset_take(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, const uint64_t *row_ids, size_t len,
                        const uint8_t *columns, size_t columns_len, struct ArrowArray *array, struct ArrowSchema *schema, lk_error *error) {
  LanceFfiError native = {0};
  int32_t code = lib->lance_ffi_dataset_take(dataset, row_ids, len, (LanceFfiSlice){columns, columns_len}, cancel, array, schema, &native);
  return fail(error, code, native);
}

int32_t lk_request(const lk_library *lib, const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, enum lk_entry entry,
                   const uint8_t *request, size_t len, uint64_t *version, lk_buffer *reply, lk_error *error) {
  LanceFfiSlice text = {request, len};
  LanceFfiError native = {0};
  LanceFfiBuffer buffer = {0};
  int32_t code = LANCE_FFI_INTERNAL;
  switch (entry) {
  case LK_PREWARM: code = lib->lance_ffi_dataset_prewarm(dataset, text, cancel, &native); break;
  case LK_DELETE: code = lib->lance_ffi_dataset_delete(dataset, text, cancel, version, &native); break;
  case LK_COMPACT: code = lib->lance_ffi_dataset_compact(dataset, text, cancel, &buffer, &native); break;
  case LK_INDEX_CREATE: code = lib->lance_ffi_index_create(dataset, text, cancel, version, &native); break;
  case LK_INDEX_CREATE_SEGMENT: code = lib->lance_ffi_index_create_segment(dataset, text, cancel, &buffer, &native); break;
  case LK_INDEX_COMMIT_SEGMENTS: code = lib->lance_ffi_index_commit_segments(dataset, text, cancel, version, &native); break;
  case LK_SCALAR_INDEX_CREATE: code = lib->lance_ffi_scalar_index_create(dataset, text, cancel, version, &native); break;
  case LK_TAG: code = lib->lance_ffi_dataset_tag(dataset, text, cancel, &native); break;
  }
  give(reply, buffer);
  return fail(error, code, native);
}

LanceFfiWriter *lk_writer_open(const lk_library *lib, const uint8_t *request, size_t len, lk_error *error) {
  LanceFfiWriter *writer = NULL;
  LanceFfiError native = {0};
  int32_t code = lib->lance_ffi_writer_open((LanceFfiSlice){request, len}, &writer, &native);
  return fail(error, code, native) == LANCE_FFI_OK ? writer : NULL;
}

int32_t lk_writer_push(const lk_library *lib, LanceFfiWriter *writer, const LanceFfiCancel *cancel, const uint8_t *ipc, size_t len, lk_error *error) {
  LanceFfiError native = {0};
  return fail(error, lib->lance_ffi_writer_push(writer, (LanceFfiSlice){ipc, len}, cancel, &native), native);
}

int32_t lk_writer_finish(const lk_library *lib, LanceFfiWriter *writer, const LanceFfiCancel *cancel, uint64_t *version, lk_error *error) {
  LanceFfiError native = {0};
  return fail(error, lib->lance_ffi_writer_finish(writer, cancel, version, &native), native);
}

void lk_writer_free(const lk_library *lib, LanceFfiWriter *writer) { lib->lance_ffi_writer_free(writer); }
