#include "trampoline.h"

#include <stdlib.h>

/* The Arrow C data interface, as its specification has it. */
struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

struct ArrowArray *lk_array_new(void) { return calloc(1, sizeof(struct ArrowArray)); }
struct ArrowSchema *lk_schema_new(void) { return calloc(1, sizeof(struct ArrowSchema)); }

void lk_array_free(struct ArrowArray *array) {
  if (array->release != NULL) array->release(array);
  free(array);
}

void lk_schema_free(struct ArrowSchema *schema) {
  if (schema->release != NULL) schema->release(schema);
  free(schema);
}

/* An empty array reads at most one offset, of 8 bytes. */
static const uint64_t nothing[8];

/* Rust gives an empty buffer a small dangling address. The Go runtime ends the process when it finds such a value on a stack it moves, and the importer
   reads the first offset even of an empty array. The importer also takes "nulls not counted" without a bitmap for an error, and on any error frees
   memory twice. */
void lk_array_normalise(struct ArrowArray *array) {
  const uintptr_t first_page = 4096;
  for (int64_t i = 0; i < array->n_buffers; i++) {
    uintptr_t address = (uintptr_t)array->buffers[i];
    if (address < first_page && (address != 0 || (i > 0 && array->length == 0))) array->buffers[i] = nothing;
  }
  if (array->null_count < 0 && array->n_buffers > 0 && array->buffers[0] == NULL) array->null_count = 0;
  for (int64_t i = 0; i < array->n_children; i++) lk_array_normalise(array->children[i]);
  if (array->dictionary != NULL) lk_array_normalise(array->dictionary);
}
