/* A stand-in for the native library: it records what crosses the boundary, answers with known values, and counts what it has handed out. The tests
   steer it through the fake_ entries. */
#include "lance_ffi.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_arrow.h"

#ifdef FAKE_TARGET_CPU
__attribute__((section(".lanceffi"), used)) static const char target_cpu[] = "target_cpu=" FAKE_TARGET_CPU;
#endif
#ifndef FAKE_ABI
#define FAKE_ABI LANCE_FFI_ABI_VERSION
#endif

/* ---- what the tests see and set ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[1 << 16];
static atomic_int fail_code;
static char fail_message[4096];
static atomic_int blocking, blocked, misuse, describes;
static atomic_int cancel_code = LANCE_FFI_CANCELLED;
static atomic_llong live;

const char *fake_last(void) { return last; }
void fake_fail(int code, const char *message) {
  snprintf(fail_message, sizeof(fail_message), "%s", message);
  atomic_store(&fail_code, code);
}
/* Calls that can be cancelled wait until they are, or until blocking is turned off. */
void fake_block(int on) { atomic_store(&blocking, on); }
/* The code that a cancelled call returns. */
void fake_cancel_code(int code) { atomic_store(&cancel_code, code); }
int fake_blocked(void) { return atomic_load(&blocked); }
int fake_misuse(void) { return atomic_load(&misuse); }
int fake_describes(void) { return atomic_load(&describes); }

static void record(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(last, sizeof(last), format, args);
  va_end(args);
}

/* ---- handles ---- */

#define ALIVE 0x11223344u
#define DEAD 0xdeadbeefu

/* Freed objects stay allocated, so that a use after free is seen and not suffered. */
struct LanceFfiDataset { uint32_t magic; uint64_t version; };
struct LanceFfiCancel { uint32_t magic; atomic_int triggered; };
struct LanceFfiWriter { uint32_t magic; uint8_t *data; size_t len; int finished; };

static void *born(size_t size) {
  uint32_t *object = keep(calloc(1, size));
  *object = ALIVE;
  atomic_fetch_add(&live, 1);
  return object;
}

static void check(const void *object) {
  if (object == NULL || *(const uint32_t *)object != ALIVE) atomic_fetch_add(&misuse, 1);
}

static void died(void *object) {
  check(object);
  *(uint32_t *)object = DEAD;
  atomic_fetch_sub(&live, 1);
}

int64_t lance_ffi_live_handles(void) { return atomic_load(&live); }

static int32_t fail(LanceFfiError *error, int32_t code, const char *message) {
  size_t len = strlen(message);
  *error = (LanceFfiError){code, (uint8_t *)1, len, len}; /* Rust's address of an empty buffer */
  if (len > 0) error->message = (uint8_t *)strdup(message);
  atomic_fetch_add(&live, 1);
  return code;
}

void lance_ffi_error_free(LanceFfiError *error) {
  if (error->message_cap > 0) free(error->message);
  atomic_fetch_sub(&live, 1);
}

static void fill(LanceFfiBuffer *out, const char *text) {
  size_t len = strlen(text);
  *out = (LanceFfiBuffer){(uint8_t *)strdup(text), len, len};
  atomic_fetch_add(&live, 1);
}

void lance_ffi_buffer_free(LanceFfiBuffer *buffer) {
  free(buffer->ptr);
  atomic_fetch_sub(&live, 1);
}

LanceFfiCancel *lance_ffi_cancel_new(void) { return born(sizeof(LanceFfiCancel)); }
void lance_ffi_cancel_trigger(const LanceFfiCancel *cancel) {
  check(cancel);
  atomic_store(&((LanceFfiCancel *)cancel)->triggered, 1);
}
void lance_ffi_cancel_free(LanceFfiCancel *cancel) { died(cancel); }

/* What every call does first: fails as told, or blocks as told. */
static int32_t begin(const LanceFfiCancel *cancel, LanceFfiError *error) {
  if (cancel != NULL) check(cancel);
  int code = atomic_load(&fail_code);
  if (code != 0) return fail(error, code, fail_message);
  if (!atomic_load(&blocking)) return 0;
  atomic_fetch_add(&blocked, 1);
  while (atomic_load(&blocking)) {
    if (cancel != NULL && atomic_load(&((LanceFfiCancel *)cancel)->triggered)) break;
    usleep(200);
  }
  atomic_fetch_sub(&blocked, 1);
  if (cancel != NULL && atomic_load(&((LanceFfiCancel *)cancel)->triggered)) return fail(error, atomic_load(&cancel_code), "stopped");
  return 0;
}

#define BEGIN(object, cancel)                    \
  check(object);                                 \
  int32_t begun = begin(cancel, error);          \
  if (begun != 0) {                              \
    check(object);                               \
    return begun;                                \
  }

/* ---- entries ---- */

uint32_t lance_ffi_abi_version(void) { return FAKE_ABI; }

LanceFfiSlice lance_ffi_build_info(void) {
  static const char text[] = "{\"version\":\"0.0.1\",\"lance\":\"14.0.2\",\"target\":\"fake\",\"target_cpu\":\"none\",\"rustc\":\"none\",\"features\":[]}";
  return (LanceFfiSlice){(const uint8_t *)text, sizeof(text) - 1};
}

int32_t lance_ffi_dataset_open(LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiDataset **out, LanceFfiError *error) {
  int32_t begun = begin(cancel, error);
  if (begun != 0) return begun;
  pthread_mutex_lock(&lock);
  record("%.*s", (int)request.len, (const char *)request.ptr);
  LanceFfiDataset *dataset = born(sizeof(*dataset));
  dataset->version = 7;
  const char *version = strstr(last, "\"version\":");
  if (version != NULL) dataset->version = strtoull(version + 10, NULL, 10);
  pthread_mutex_unlock(&lock);
  *out = dataset;
  return 0;
}

void lance_ffi_dataset_close(LanceFfiDataset *dataset) { died(dataset); }

uint64_t lance_ffi_dataset_version(const LanceFfiDataset *dataset) {
  check(dataset);
  return dataset->version;
}

int32_t lance_ffi_dataset_schema(const LanceFfiDataset *dataset, struct ArrowSchema *out, LanceFfiError *error) {
  BEGIN(dataset, NULL)
  *out = *fake_arrow_schema(&live);
  return 0;
}

int32_t lance_ffi_dataset_describe(const LanceFfiDataset *dataset, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error) {
  atomic_fetch_add(&describes, 1);
  BEGIN(dataset, cancel)
  fill(out,
       "{\"uri\":\"mem\",\"version\":7,\"stable_row_ids\":true,"
       "\"fragments\":[{\"id\":4,\"physical_rows\":20,\"deleted_rows\":5},{\"id\":2,\"physical_rows\":10,\"deleted_rows\":0}],"
       "\"indexes\":[{\"name\":\"vec_idx\",\"column\":\"vec\",\"field_id\":3,\"type\":\"IVF_PQ\",\"metric\":\"cosine\",\"segments\":["
       "{\"uuid\":\"00112233-4455-6677-8899-aabbccddeeff\",\"fragments\":[2,9],\"type\":\"IVF_PQ\",\"metric\":\"cosine\",\"partitions\":16,\"dataset_version\":5},"
       "{\"uuid\":\"ffffffff-ffff-ffff-ffff-ffffffffffff\",\"fragments\":null,\"type\":\"IVF_PQ\",\"metric\":\"cosine\",\"partitions\":8,\"dataset_version\":6,\"problem\":\"old\"}]}],"
       "\"other_indexes\":[{\"name\":\"c\",\"column\":\"category\",\"type\":\"BTREE\"}],\"monolithic\":[\"reuse\"]}");
  return 0;
}

int32_t lance_ffi_dataset_column(const LanceFfiDataset *dataset, LanceFfiSlice path, LanceFfiBuffer *out, LanceFfiError *error) {
  BEGIN(dataset, NULL)
  atomic_fetch_add(&describes, 1);
  if (path.len != 3 || memcmp(path.ptr, "vec", 3) != 0) return fail(error, LANCE_FFI_NOT_FOUND, "no such column");
  fill(out, "{\"field_id\":3,\"path\":\"vec\",\"value_type\":\"float16\",\"dim\":128,\"multivector\":true}");
  return 0;
}

static void record_search(const LanceFfiSearch *s) {
  int n = snprintf(last, sizeof(last), "column=%.*s\nfilter=%.*s\nsegments=", (int)s->column.len, (const char *)s->column.ptr, (int)s->filter.len, (const char *)s->filter.ptr);
  for (size_t i = 0; i < s->segment_count * 16; i++) n += snprintf(last + n, sizeof(last) - n, "%02x", s->segments[i]);
  n += snprintf(last + n, sizeof(last) - n, "\nfragments=");
  for (size_t i = 0; i < s->fragment_count; i++) n += snprintf(last + n, sizeof(last) - n, "%u,", s->fragments[i]);
  n += snprintf(last + n, sizeof(last) - n, "\nbounds=");
  for (size_t i = 0; s->bounds != NULL && i < s->query_count; i++) n += snprintf(last + n, sizeof(last) - n, "%g,", s->bounds[i]);
  snprintf(last + n, sizeof(last) - n,
           "\nvalue_type=%u\nvectors_per_query=%u\nquery_count=%zu\ndim=%zu\nk=%llu\nrefine_factor=%llu\nnprobes=%lld\nmin_nprobes=%lld\nmax_nprobes=%lld\n"
           "search_effort=%g\nef=%lld\ndistance_lower=%g\ndistance_upper=%g\nmetric=%u\nquery_parallelism=%d\napprox_mode=%u\nuse_index=%u\npath=%u\n"
           "probing=%u\nthreads=%u\nreserved=%u\naligned=%d\n",
           s->value_type, s->vectors_per_query, s->query_count, s->dim, (unsigned long long)s->k, (unsigned long long)s->refine_factor,
           (long long)s->nprobes, (long long)s->min_nprobes, (long long)s->max_nprobes, s->search_effort, (long long)s->ef, s->distance_lower,
           s->distance_upper, s->metric, s->query_parallelism, s->approx_mode, s->use_index, s->path, s->probing, s->threads, s->reserved,
           (uintptr_t)s->vectors % 4 == 0);
}

/* min(k, 3) candidates a query; with float32 vectors the distance is the query's first value plus the rank. k = 999 finds nothing. */
int32_t lance_ffi_dataset_search(const LanceFfiDataset *dataset, const LanceFfiSearch *search, const LanceFfiCancel *cancel, LanceFfiCandidates *out, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  pthread_mutex_lock(&lock);
  record_search(search);
  pthread_mutex_unlock(&lock);
  size_t each = search->k == 999 ? 0 : search->k < 3 ? search->k : 3;
  size_t len = each * search->query_count;
  *out = (LanceFfiCandidates){(uint32_t *)4, (float *)4, (uint64_t *)8, len, {2, 1, LANCE_FFI_METRIC_DOT, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}};
  if (len > 0) {
    out->query = malloc(len * sizeof(uint32_t));
    out->distance = malloc(len * sizeof(float));
    out->row_id = malloc(len * sizeof(uint64_t));
  }
  size_t per = search->vectors_per_query == 0 ? 1 : search->vectors_per_query;
  for (size_t i = 0; i < len; i++) {
    out->query[i] = (uint32_t)(i / each);
    out->row_id[i] = (1ull << 32) + i;
    out->distance[i] = (float)(i % each);
    if (search->value_type == LANCE_FFI_FLOAT32) out->distance[i] += ((const float *)search->vectors)[i / each * per * search->dim];
  }
  atomic_fetch_add(&live, 1);
  check(dataset);
  return 0;
}

void lance_ffi_candidates_free(LanceFfiCandidates *candidates) {
  if (candidates->len > 0) {
    free(candidates->query);
    free(candidates->distance);
    free(candidates->row_id);
  }
  atomic_fetch_sub(&live, 1);
}

int32_t lance_ffi_dataset_eligibility(const LanceFfiDataset *dataset, const LanceFfiSearch *search, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  pthread_mutex_lock(&lock);
  record_search(search);
  pthread_mutex_unlock(&lock);
  fill(out, search->k == 1 ? "{\"direct\":true,\"reasons\":[]}" : "{\"direct\":false,\"reasons\":[\"overlay\",\"multivector\"]}");
  return 0;
}

/* 1000 x query + row id + the query's first value; NaN for row id 404. */
int32_t lance_ffi_dataset_refine(const LanceFfiDataset *dataset, LanceFfiSlice column, uint32_t metric, const uint8_t *vectors, uint32_t value_type, uint32_t vectors_per_query, size_t query_count, size_t dim, const uint32_t *query, const uint64_t *row_id, size_t len, float *out_distances, const LanceFfiCancel *cancel, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  pthread_mutex_lock(&lock);
  record("column=%.*s\nmetric=%u\nvalue_type=%u\nvectors_per_query=%u\nquery_count=%zu\ndim=%zu\nlen=%zu\n", (int)column.len, (const char *)column.ptr, metric, value_type, vectors_per_query, query_count, dim, len);
  pthread_mutex_unlock(&lock);
  for (size_t i = 0; i < len; i++)
    out_distances[i] = row_id[i] == 404 ? NAN : 1000.0f * (float)query[i] + (float)row_id[i] + ((const float *)vectors)[query[i] * dim];
  return 0;
}

int32_t lance_ffi_dataset_take(const LanceFfiDataset *dataset, const uint64_t *row_ids, size_t len, LanceFfiSlice columns, const LanceFfiCancel *cancel, struct ArrowArray *out_array, struct ArrowSchema *out_schema, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  pthread_mutex_lock(&lock);
  int n = snprintf(last, sizeof(last), "columns=%.*s\nrow_ids=", (int)columns.len, (const char *)columns.ptr);
  for (size_t i = 0; i < len; i++) n += snprintf(last + n, sizeof(last) - n, "%llu,", (unsigned long long)row_ids[i]);
  pthread_mutex_unlock(&lock);
  *out_array = *fake_arrow_array(&live, len == 0);
  *out_schema = *fake_arrow_schema(&live);
  return 0;
}

#define REQUEST(entry) record("entry=" #entry "\nrequest=%.*s\n", (int)request.len, (const char *)request.ptr)

int32_t lance_ffi_dataset_prewarm(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(prewarm);
  return 0;
}
int32_t lance_ffi_dataset_delete(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(delete);
  *out_version = 101;
  return 0;
}
int32_t lance_ffi_dataset_compact(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(compact);
  fill(out, "{\"version\":102,\"fragments_removed\":5,\"fragments_added\":2}");
  return 0;
}
int32_t lance_ffi_index_create(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(index_create);
  *out_version = 103;
  return 0;
}
int32_t lance_ffi_index_create_segment(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiBuffer *out, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(index_create_segment);
  fill(out, "{\"opaque\": [1, 2]}");
  return 0;
}
int32_t lance_ffi_index_commit_segments(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(index_commit_segments);
  *out_version = 104;
  return 0;
}
int32_t lance_ffi_scalar_index_create(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(scalar_index_create);
  *out_version = 105;
  return 0;
}
#ifndef FAKE_WITHOUT_TAG
int32_t lance_ffi_dataset_tag(const LanceFfiDataset *dataset, LanceFfiSlice request, const LanceFfiCancel *cancel, LanceFfiError *error) {
  BEGIN(dataset, cancel)
  REQUEST(tag);
  return 0;
}
#endif

/* ---- writer: keeps the bytes of the last stream, and what became of it ---- */

static uint8_t *written;
static size_t written_len;
static int committed, pushes;

const uint8_t *fake_written(void) { return written; }
size_t fake_written_len(void) { return written_len; }
int fake_committed(void) { return committed; }
int fake_pushes(void) { return pushes; }

int32_t lance_ffi_writer_open(LanceFfiSlice request, LanceFfiWriter **out, LanceFfiError *error) {
  int code = atomic_load(&fail_code);
  if (code == LANCE_FFI_ALREADY_EXISTS) return fail(error, code, fail_message);
  record("%.*s", (int)request.len, (const char *)request.ptr);
  *out = born(sizeof(LanceFfiWriter));
  committed = pushes = 0;
  return 0;
}

int32_t lance_ffi_writer_push(LanceFfiWriter *writer, LanceFfiSlice ipc, const LanceFfiCancel *cancel, LanceFfiError *error) {
  BEGIN(writer, cancel)
  writer->data = realloc(writer->data, writer->len + ipc.len);
  memcpy(writer->data + writer->len, ipc.ptr, ipc.len);
  writer->len += ipc.len;
  pushes++;
  return 0;
}

int32_t lance_ffi_writer_finish(LanceFfiWriter *writer, const LanceFfiCancel *cancel, uint64_t *out_version, LanceFfiError *error) {
  BEGIN(writer, cancel)
  writer->finished = 1;
  *out_version = 9;
  return 0;
}

void lance_ffi_writer_free(LanceFfiWriter *writer) {
  committed = writer->finished;
  free(written);
  written = writer->data;
  written_len = writer->len;
  died(writer);
}
