/* A preloaded allocator of the usual wrapping kind: it finds the one behind it with dlsym on first use, and
 * dlsym itself may allocate. A bump buffer serves what is asked for meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

static _Alignas(64) char buffer[64 * 1024];
static size_t used;
/* volatile: dlsym is declared a leaf that does not call back into this file, which is what it does here */
static __thread volatile int resolving;
static void* (*next_malloc)(size_t);
static void* (*next_calloc)(size_t, size_t);
static void* (*next_realloc)(void*, size_t);
static void (*next_free)(void*);

static int is_bump(const void* pointer) {
  return (const char*)pointer >= buffer && (const char*)pointer < buffer + sizeof buffer;
}

static void* bump(size_t bytes) {
  const size_t at = __atomic_fetch_add(&used, (bytes + 63) & ~(size_t)63, __ATOMIC_RELAXED);
  return at + bytes <= sizeof buffer ? buffer + at : NULL;
}

static void look_up(const char* name, void* function) {
  void* symbol = dlsym(RTLD_NEXT, name);
  memcpy(function, &symbol, sizeof symbol);
}

static void resolve(void) {
  if (next_free != NULL || resolving) return;
  resolving = 1;
  (void)dlsym(RTLD_NEXT, "a_symbol_that_is_nowhere"); /* the failing look-up is the one that allocates */
  look_up("malloc", &next_malloc);
  look_up("calloc", &next_calloc);
  look_up("realloc", &next_realloc);
  look_up("free", &next_free);
  resolving = 0;
}

void* malloc(size_t bytes) {
  resolve();
  return next_malloc != NULL && !resolving ? next_malloc(bytes) : bump(bytes);
}

void* calloc(size_t count, size_t bytes) {
  resolve();
  return next_calloc != NULL && !resolving ? next_calloc(count, bytes) : bump(count * bytes);
}

void* realloc(void* pointer, size_t bytes) {
  resolve();
  if (!is_bump(pointer) && next_realloc != NULL) return next_realloc(pointer, bytes);
  void* moved = malloc(bytes);
  if (moved != NULL && pointer != NULL) {
    const size_t most = (size_t)(buffer + sizeof buffer - (const char*)pointer);
    memcpy(moved, pointer, bytes < most ? bytes : most);
  }
  return moved;
}

void free(void* pointer) {
  resolve();
  if (pointer != NULL && !is_bump(pointer) && next_free != NULL) next_free(pointer);
}
