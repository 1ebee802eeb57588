/* Memory outside any heap that grows beyond the limit, and a thread that gives some of it back, for which it
 * needs a page of its own first.
 *
 *   late_helper FILL_MIB BACK_MIB
 *
 * The page is asked for while the filling thread waits at the limit. Ends with 3 if what was filled is not
 * what was written. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE ((size_t)4096)

static char *area, *spare, *own;
static size_t fill_bytes, back_bytes;

static char* map(size_t bytes) {
  char* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) exit(2);
  madvise(at, bytes, MADV_NOHUGEPAGE);
  return at;
}

static void* give_back(void* unused) {
  const struct timespec until_it_waits = {.tv_sec = 1};
  nanosleep(&until_it_waits, NULL);
  own[0] = 1;
  munmap(spare, back_bytes);
  return unused;
}

int main(int count, char** words) {
  pthread_t helper;
  if (count != 3) return 2;
  fill_bytes = (size_t)atol(words[1]) << 20;
  back_bytes = (size_t)atol(words[2]) << 20;
  area = map(fill_bytes);
  spare = map(back_bytes);
  own = map(PAGE);
  for (size_t at = 0; at < back_bytes; at += PAGE) spare[at] = 1;
  pthread_create(&helper, NULL, give_back, NULL);
  for (size_t at = 0; at < fill_bytes; at += PAGE) area[at] = (char)(at / PAGE + 1);
  pthread_join(helper, NULL);
  puts("filled");
  for (size_t at = 0; at < fill_bytes; at += PAGE)
    if (area[at] != (char)(at / PAGE + 1)) return 3;
  return 0;
}
