/* An Arrow batch made by hand as Rust exports one, with every trait that an importer can get wrong: nulls, offsets, nesting, dictionaries, and small
   dangling addresses for empty buffers. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

/* What stays allocated after it is released, so that its late users are found out, stays reachable: a leak checker then reports only real leaks. */
struct grave { struct grave *next; void *content; };
static _Atomic(struct grave *) graves;
static void *keep(void *content) {
  struct grave *g = malloc(sizeof(*g));
  g->content = content;
  g->next = atomic_load(&graves);
  while (!atomic_compare_exchange_weak(&graves, &g->next, g)) {}
  return content;
}

static void release_schema(struct ArrowSchema *s) {
  for (int64_t i = 0; i < s->n_children; i++)
    if (s->children[i]->release != NULL) s->children[i]->release(s->children[i]);
  if (s->dictionary != NULL && s->dictionary->release != NULL) s->dictionary->release(s->dictionary);
  s->release = NULL;
  if (s->private_data != NULL) atomic_fetch_sub((atomic_llong *)s->private_data, 1);
}

static struct ArrowSchema *schema(const char *format, const char *name, int64_t n_children, struct ArrowSchema **children, struct ArrowSchema *dictionary) {
  struct ArrowSchema *s = keep(calloc(1, sizeof(*s)));
  *s = (struct ArrowSchema){format, name, NULL, 2 /* nullable */, n_children, NULL, dictionary, release_schema, NULL};
  s->children = keep(malloc(sizeof(*children) * (size_t)(n_children + 1)));
  memcpy(s->children, children, sizeof(*children) * (size_t)n_children);
  return s;
}

struct owned { atomic_llong *live; void *copies[4]; size_t sizes[4]; };

/* Scribbles over the buffers: whoever still reads them is found out. */
static void release_array(struct ArrowArray *a) {
  for (int64_t i = 0; i < a->n_children; i++)
    if (a->children[i]->release != NULL) a->children[i]->release(a->children[i]);
  if (a->dictionary != NULL && a->dictionary->release != NULL) a->dictionary->release(a->dictionary);
  struct owned *o = a->private_data;
  for (int i = 0; i < 4; i++)
    if (o->copies[i] != NULL) memset(o->copies[i], 0xa5, o->sizes[i]);
  if (o->live != NULL) atomic_fetch_sub(o->live, 1);
  a->release = NULL;
}

struct bytes { const void *data; size_t size; };
#define BYTES(...) {(__VA_ARGS__), sizeof(__VA_ARGS__)}
static const struct bytes null_buffer = {NULL, 0}, dangling = {(const void *)0x80, 0};

static struct ArrowArray *array(int64_t length, int64_t nulls, int64_t offset, int64_t n_buffers, const struct bytes *buffers, int64_t n_children, struct ArrowArray **children, struct ArrowArray *dictionary) {
  struct ArrowArray *a = keep(calloc(1, sizeof(*a)));
  struct owned *o = keep(calloc(1, sizeof(*o)));
  *a = (struct ArrowArray){length, nulls, offset, n_buffers, n_children, keep(calloc(4, sizeof(void *))), NULL, dictionary, release_array, o};
  for (int64_t i = 0; i < n_buffers; i++) {
    a->buffers[i] = buffers[i].data;
    if (buffers[i].size == 0) continue;
    o->copies[i] = keep(aligned_alloc(64, (buffers[i].size + 63) / 64 * 64));
    o->sizes[i] = buffers[i].size;
    memcpy(o->copies[i], buffers[i].data, buffers[i].size);
    a->buffers[i] = o->copies[i];
  }
  a->children = keep(malloc(sizeof(*children) * (size_t)(n_children + 1)));
  memcpy(a->children, children, sizeof(*children) * (size_t)n_children);
  return a;
}

static struct ArrowSchema *fake_arrow_schema(atomic_llong *live) {
  struct ArrowSchema *struct_children[] = {schema("l", "a", 0, NULL, NULL), schema("u", "b", 0, NULL, NULL)};
  struct ArrowSchema *list_child[] = {schema("s", "item", 0, NULL, NULL)};
  struct ArrowSchema *vector_child[] = {schema("f", "item", 0, NULL, NULL)};
  struct ArrowSchema *columns[] = {
      schema("i", "id", 0, NULL, NULL),
      schema("u", "title", 0, NULL, NULL),
      schema("+l", "list", 1, list_child, NULL),
      schema("+s", "nested", 2, struct_children, NULL),
      schema("c", "word", 0, NULL, schema("u", "", 0, NULL, NULL)),
      schema("b", "flag", 0, NULL, NULL),
      schema("+w:2", "vec", 1, vector_child, NULL),
      schema("n", "nothing", 0, NULL, NULL),
      schema("u", "empty", 0, NULL, NULL),
  };
  struct ArrowSchema *top = schema("+s", "", sizeof(columns) / sizeof(columns[0]), columns, NULL);
  atomic_fetch_add(live, 1);
  top->private_data = live;
  return top;
}

/* 3 rows, or none. */
static struct ArrowArray *fake_arrow_array(atomic_llong *live, int empty) {
  struct ArrowArray *top;
  if (empty) {
    const struct bytes hollow[] = {null_buffer, dangling, dangling};
    struct ArrowArray *item[] = {array(0, 0, 0, 2, hollow, 0, NULL, NULL)};
    struct ArrowArray *parts[] = {array(0, 0, 0, 2, hollow, 0, NULL, NULL), array(0, 0, 0, 3, hollow, 0, NULL, NULL)};
    struct ArrowArray *values[] = {array(0, 0, 0, 2, hollow, 0, NULL, NULL)};
    struct ArrowArray *columns[] = {
        array(0, 0, 0, 2, hollow, 0, NULL, NULL), array(0, 0, 0, 3, hollow, 0, NULL, NULL), array(0, 0, 0, 2, hollow, 1, item, NULL),
        array(0, 0, 0, 1, hollow, 2, parts, NULL), array(0, 0, 0, 2, hollow, 0, NULL, array(0, 0, 0, 3, hollow, 0, NULL, NULL)),
        array(0, 0, 0, 2, hollow, 0, NULL, NULL), array(0, 0, 0, 1, hollow, 1, values, NULL), array(0, 0, 0, 0, NULL, 0, NULL, NULL),
        array(0, 0, 0, 3, hollow, 0, NULL, NULL),
    };
    top = array(0, 0, 0, 1, &null_buffer, 9, columns, NULL);
  } else {
    /* id: 11, null, 13; nulls not counted elsewhere are -1 with no bitmap. */
    const struct bytes id[] = {BYTES((uint8_t[]){0x05}), BYTES((int32_t[]){11, 0, 13})};
    /* title, with offset 1: "bb", "", "dddd" */
    const struct bytes title[] = {null_buffer, BYTES((int32_t[]){0, 1, 3, 3, 7}), BYTES((char[]){'a', 'b', 'b', 'd', 'd', 'd', 'd'})};
    /* list, with offset 1: null, [], [null, 7, 8]; its items have an offset too */
    const struct bytes items[] = {BYTES((uint8_t[]){0x33}), BYTES((int16_t[]){99, 5, 0, 0, 7, 8})};
    const struct bytes list[] = {BYTES((uint8_t[]){0x0d}), BYTES((int32_t[]){0, 1, 2, 2, 5})};
    /* nested, with offset 1: {2,"y"}, null, {4,null} */
    const struct bytes a[] = {null_buffer, BYTES((int64_t[]){1, 2, 3, 4})};
    const struct bytes b[] = {BYTES((uint8_t[]){0x07}), BYTES((int32_t[]){0, 1, 2, 3, 3}), BYTES((char[]){'x', 'y', 'z'})};
    const struct bytes nested[] = {BYTES((uint8_t[]){0x0b})};
    /* word: "right", null, "left" */
    const struct bytes words[] = {null_buffer, BYTES((int32_t[]){0, 4, 9}), BYTES((char[]){'l', 'e', 'f', 't', 'r', 'i', 'g', 'h', 't'})};
    const struct bytes word[] = {BYTES((uint8_t[]){0x05}), BYTES((int8_t[]){1, 0, 0})};
    /* flag, with offset 9: true, false, true */
    const struct bytes flag[] = {null_buffer, BYTES((uint8_t[]){0x00, 0x0a})};
    /* vec, with offset 1: [3,4], null, [7,8] */
    const struct bytes values[] = {null_buffer, BYTES((float[]){1, 2, 3, 4, 5, 6, 7, 8})};
    const struct bytes vec[] = {BYTES((uint8_t[]){0x0a})};
    const struct bytes no_text[] = {null_buffer, BYTES((int32_t[]){0, 0, 0, 0}), dangling};

    struct ArrowArray *item[] = {array(5, -1, 1, 2, items, 0, NULL, NULL)};
    struct ArrowArray *parts[] = {array(4, 0, 0, 2, a, 0, NULL, NULL), array(4, 1, 0, 3, b, 0, NULL, NULL)};
    struct ArrowArray *value[] = {array(8, -1, 0, 2, values, 0, NULL, NULL)};
    struct ArrowArray *columns[] = {
        array(3, 1, 0, 2, id, 0, NULL, NULL), array(3, -1, 1, 3, title, 0, NULL, NULL), array(3, 1, 1, 2, list, 1, item, NULL),
        array(3, 1, 1, 1, nested, 2, parts, NULL), array(3, 1, 0, 2, word, 0, NULL, array(2, 0, 0, 3, words, 0, NULL, NULL)),
        array(3, 0, 9, 2, flag, 0, NULL, NULL), array(3, 1, 1, 1, vec, 1, value, NULL), array(3, 3, 0, 0, NULL, 0, NULL, NULL),
        array(3, 0, 0, 3, no_text, 0, NULL, NULL),
    };
    top = array(3, 0, 0, 1, &null_buffer, 9, columns, NULL);
  }
  ((struct owned *)top->private_data)->live = live;
  atomic_fetch_add(live, 1);
  return top;
}
