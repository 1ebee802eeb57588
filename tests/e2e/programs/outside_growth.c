/* A heap that fills more than the limit, and then memory outside the heap that grows as fast as it can.
 *
 *   outside_growth HEAP_MIB OUTSIDE_MIB THREADS huge|small
 *
 * Between the two everything in the heap is read and written for a while, so that the heap's budget is in
 * use. Ends with 3 if the heap's content is not what was written. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BLOCK ((size_t)16 << 20)
#define PAGE ((size_t)4096)
#define MOST_THREADS 16

static char* outside;
static size_t bytes_per_thread;

static void* grow(void* number) {
  char* const mine = outside + (size_t)number * bytes_per_thread;
  for (size_t at = 0; at < bytes_per_thread; at += PAGE) mine[at] = 1;
  return NULL;
}

static void grow_outside(size_t bytes, size_t threads, int huge) {
  pthread_t ids[MOST_THREADS];
  outside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (outside == MAP_FAILED) exit(2);
  if (huge) madvise(outside, bytes, MADV_HUGEPAGE);
  bytes_per_thread = bytes / threads;
  for (size_t i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, grow, (void*)i);
  for (size_t i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
}

int main(int count, char** words) {
  if (count != 5) return 2;
  const size_t blocks = (size_t)atol(words[1]) * (1 << 20) / BLOCK;
  size_t threads = (size_t)atol(words[3]);
  if (threads == 0 || threads > MOST_THREADS) return 2;
  char** heap = malloc(blocks * sizeof *heap);
  for (size_t i = 0; i < blocks; ++i) memset(heap[i] = malloc(BLOCK), (int)i + 1, BLOCK);
  for (const time_t end = time(NULL) + 3; time(NULL) < end;)
    for (size_t i = 0; i < blocks; ++i)
      for (size_t at = 0; at < BLOCK; at += PAGE) heap[i][at] = (char)(i + 1);
  grow_outside((size_t)atol(words[2]) << 20, threads, strcmp(words[4], "huge") == 0);
  puts("grown");
  for (size_t i = 0; i < blocks; ++i)
    for (size_t at = 0; at < BLOCK; at += PAGE)
      if (heap[i][at] != (char)(i + 1)) return 3;
  return 0;
}
