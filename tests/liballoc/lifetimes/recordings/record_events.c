// Records what a program allocates and frees in blocks of 256 KiB and more, as files beside this one hold it:
//
//   gcc -O2 -shared -fPIC -o record_events.so record_events.c -ldl
//   RECORD_EVENTS=densenet121.events LD_PRELOAD=./record_events.so python3 phases.py densenet121 16 64
//
// The recordings here are of unet 4 64, densenet121 16 64 and transformer 8 64, with PyTorch 1.13 of Debian
// 12, and packed with gzip -9n.
//
// Preloaded in front of the C library's allocator. One line for each event: `a THREAD ALIGNMENT BYTES` (the
// alignment as its logarithm to base 2), `f THREAD N` (what the Nth allocation of the file brought, from 0,
// is gone). A block that realloc() changes is a free and an allocation.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { least_bytes = 256 * 1024, slots = 1 << 16, most_events = 1 << 22 };

static struct slot {
  void* address;
  uint32_t number;
} live[slots];
static struct event {
  uint64_t bytes;
  uint32_t number;
  uint8_t thread, alignment, freed;
} * events;
static uint32_t event_count, allocation_count, thread_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int own_number = -1;

static void* (*next_malloc)(size_t);
static void (*next_free)(void*);
static void* (*next_calloc)(size_t, size_t);
static void* (*next_realloc)(void*, size_t);
static int (*next_posix_memalign)(void**, size_t, size_t);
static char early[1 << 16];  // dlsym() asks for memory before we know where it is to be had
static size_t early_used;

static void find_next(void) {
  static int began;
  if (began++) return;
  next_calloc = dlsym(RTLD_NEXT, "calloc");
  next_free = dlsym(RTLD_NEXT, "free");
  next_realloc = dlsym(RTLD_NEXT, "realloc");
  next_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
  next_malloc = dlsym(RTLD_NEXT, "malloc");
}

static struct slot* find(void* address) {
  uint32_t i = (uint32_t)(((uintptr_t)address >> 4) * 0x9E3779B1u) % slots;
  while (live[i].address != address && live[i].address != NULL) i = (i + 1) % slots;
  return &live[i];
}

static void note(uint64_t bytes, uint32_t number, unsigned alignment, int freed) {
  if (events == NULL) events = next_calloc(most_events, sizeof *events);
  if (own_number < 0) own_number = (int)thread_count++;
  if (event_count < most_events)
    events[event_count++] =
        (struct event){bytes, number, (uint8_t)own_number, (uint8_t)alignment, (uint8_t)freed};
}

static void came(void* address, size_t bytes, unsigned alignment) {
  if (address == NULL || bytes < least_bytes) return;
  pthread_mutex_lock(&lock);
  struct slot* s = find(address);
  s->address = address;
  s->number = allocation_count++;
  note(bytes, s->number, alignment, 0);
  pthread_mutex_unlock(&lock);
}

static void goes(void* address) {
  if (address == NULL) return;
  pthread_mutex_lock(&lock);
  struct slot* s = find(address);
  if (s->address != NULL) {
    note(0, s->number, 0, 1);
    uint32_t hole = (uint32_t)(s - live);
    for (uint32_t i = (hole + 1) % slots; live[i].address != NULL; i = (i + 1) % slots) {
      const uint32_t home = (uint32_t)(((uintptr_t)live[i].address >> 4) * 0x9E3779B1u) % slots;
      if ((i - home) % slots >= (i - hole) % slots) {
        live[hole] = live[i];
        hole = i;
      }
    }
    live[hole].address = NULL;
  }
  pthread_mutex_unlock(&lock);
}

void* malloc(size_t bytes) {
  find_next();
  if (next_malloc == NULL)
    return early_used += (bytes + 15) & ~(size_t)15, early + early_used - ((bytes + 15) & ~(size_t)15);
  void* p = next_malloc(bytes);
  came(p, bytes, 4);
  return p;
}
void* calloc(size_t n, size_t each) {
  find_next();
  if (next_calloc == NULL) return malloc(n * each);
  void* p = next_calloc(n, each);
  came(p, n * each, 4);
  return p;
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  find_next();
  const int error = next_posix_memalign(out, alignment, bytes);
  if (error == 0) came(*out, bytes, (unsigned)__builtin_ctzl(alignment));
  return error;
}
void free(void* p) {
  if ((char*)p >= early && (char*)p < early + sizeof early) return;
  goes(p);
  next_free(p);
}
void* realloc(void* old, size_t bytes) {
  find_next();
  goes(old);
  void* p = next_realloc(old, bytes);
  came(p, bytes, 4);
  return p;
}

__attribute__((destructor)) static void write_all(void) {
  const char* path = getenv("RECORD_EVENTS");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  for (uint32_t i = 0; i < event_count; ++i)
    if (events[i].freed)
      fprintf(file, "f %u %u\n", events[i].thread, events[i].number);
    else
      fprintf(file, "a %u %u %llu\n", events[i].thread, events[i].alignment,
              (unsigned long long)events[i].bytes);
  fclose(file);
}
