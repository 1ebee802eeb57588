/* A program with jemalloc linked into it. Its malloc wins over every preloaded one, also for calls from libc,
 * so a preload that sees such a pointer must leave it alone. Blocks of all sizes are made by the program and
 * by libc (getline, strdup, open_memstream) and released by the other, in threads, and their contents are
 * checked. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int mallctl(const char* name, void* old, size_t* old_size, void* new_value, size_t new_size);

enum { THREADS = 4, BLOCKS = 64, ROUNDS = 50 };

static uint64_t next(uint64_t* state) {
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  return *state >> 33;
}

static uint64_t sum_of(const unsigned char* block, size_t size) {
  uint64_t sum = size;
  for (size_t at = 0; at < size; at += 509) sum = sum * 31 + block[at];
  return sum;
}

static void* work(void* seed) {
  uint64_t state = (uint64_t)(uintptr_t)seed;
  uint64_t sum = 0;
  unsigned char* blocks[BLOCKS] = {0};
  size_t sizes[BLOCKS] = {0};
  for (int step = 0; step < BLOCKS * ROUNDS; ++step) {
    const unsigned at = (unsigned)(next(&state) % BLOCKS);
    if (blocks[at]) sum += sum_of(blocks[at], sizes[at]);
    sizes[at] = (size_t)1 << (4 + next(&state) % 18);
    blocks[at] = realloc(blocks[at], sizes[at]);
    if (!blocks[at]) abort();
    memset(blocks[at], (int)(next(&state) & 255), sizes[at]);
  }
  for (int at = 0; at < BLOCKS; ++at) free(blocks[at]);
  return (void*)(uintptr_t)sum;
}

static uint64_t blocks_of_libc(void) {
  char* text = NULL;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  for (int i = 0; i < 100000; ++i) fprintf(stream, "%d ", i);
  fclose(stream);
  char* copy = strdup(text);
  text = realloc(text, size * 2);
  const uint64_t sum = sum_of((unsigned char*)copy, size) + sum_of((unsigned char*)text, size);
  free(text);
  free(copy);
  return sum;
}

int main(void) {
  pthread_t threads[THREADS];
  uint64_t allocated = 0;
  size_t size = sizeof allocated;
  for (uintptr_t i = 0; i < THREADS; ++i) {
    if (pthread_create(&threads[i], NULL, work, (void*)(i + 1))) abort();
  }
  for (int i = 0; i < THREADS; ++i) {
    void* sum = NULL;
    pthread_join(threads[i], &sum);
    printf("thread %d: %lu\n", i, (unsigned long)(uintptr_t)sum);
  }
  printf("libc: %lu\n", (unsigned long)blocks_of_libc());
  void* kept = malloc(32 << 20);
  mallctl("epoch", NULL, NULL, &(uint64_t){1}, sizeof(uint64_t));
  mallctl("stats.allocated", &allocated, &size, NULL, 0);
  puts(kept && allocated >= 32 << 20 ? "jemalloc serves malloc" : "another allocator serves malloc");
  free(kept);
  return 0;
}
