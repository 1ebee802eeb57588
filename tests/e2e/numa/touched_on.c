/* On which NUMA node memory lies that a thread of one node or the other touched first.
 *
 *   touched_on BUDGET_MIB [SECONDS]
 *
 * For a machine whose CPU 0 is of node 0 and whose CPU 1 is of node 1. Under the preload BUDGET_MIB is
 * TERRACE_DRAM; stock it only says how much is touched. With SECONDS node 1 goes on reading, so that the
 * kernel's automatic balancing has time to work. Each line says what was touched, the percentage of its pages
 * on the node of the thread that touched it, and how many pages that is of. All content is checked. Ends with
 * 3 if it is not what was written, and with 2 where something is missing. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "liballoc/terrace.h"

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define RUN (2 * MIB)
#define BLOCK (16 * MIB)
#define MOST_BLOCKS 64
#define MOST_PAGES (BLOCK / PAGE)
#define MPOL_DEFAULT 0
#define MPOL_BIND 2
#define CPUS 2

static void give_up(const char* what) {
  fprintf(stderr, "touched_on: %s\n", what);
  exit(2);
}

/* ---- content: each word tells where it belongs */

struct Part {
  uint64_t* words;
  size_t bytes;
  uint64_t seed;
  size_t step, first; /* every step-th run from the first one on */
};

static struct Part whole(void* block, size_t bytes, uint64_t seed) {
  return (struct Part){block, bytes, seed, 1, 0};
}

static uint64_t word_of(uint64_t seed, size_t at) { return (seed + at) * 0x9E3779B97F4A7C15u; }

static void fill(struct Part* part) {
  const size_t words = RUN / sizeof(uint64_t), all = part->bytes / sizeof(uint64_t);
  for (size_t run = part->first * words; run < all; run += part->step * words)
    for (size_t at = run; at < run + words && at < all; ++at) part->words[at] = word_of(part->seed, at);
}

static void verify(struct Part* part) {
  for (size_t at = 0; at < part->bytes / sizeof(uint64_t); ++at)
    if (part->words[at] != word_of(part->seed, at)) {
      fprintf(stderr, "touched_on: wrong bytes in block %llu at %zu\n", (unsigned long long)part->seed,
              at * 8);
      exit(3);
    }
}

/* ---- threads, each on its CPU */

struct Task {
  void (*work)(struct Part*);
  struct Part part;
};

static void* run_task(void* task) {
  ((struct Task*)task)->work(&((struct Task*)task)->part);
  return NULL;
}

static pthread_t begin(int cpu, struct Task* task) {
  pthread_attr_t attributes;
  pthread_t thread;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
  if (pthread_create(&thread, &attributes, run_task, task) != 0) give_up("no thread");
  pthread_attr_destroy(&attributes);
  return thread;
}

static void on(int cpu, void (*work)(struct Part*), struct Part part) {
  struct Task task = {work, part};
  pthread_join(begin(cpu, &task), NULL);
}

/* CPU c does the c-th, all at once. */
static void together(void (*work)(struct Part*), const struct Part parts[CPUS]) {
  struct Task tasks[CPUS];
  pthread_t threads[CPUS];
  for (int cpu = 0; cpu < CPUS; ++cpu) {
    tasks[cpu] = (struct Task){work, parts[cpu]};
    threads[cpu] = begin(cpu, &tasks[cpu]);
  }
  for (int cpu = 0; cpu < CPUS; ++cpu) pthread_join(threads[cpu], NULL);
}

/* ---- where pages lie */

struct Share {
  size_t there, pages;
};

static int nodes[MOST_PAGES];

/* Fills `nodes`: the node of each page, or negative where there is none. */
static void ask(const char* address, size_t bytes) {
  static void* pages[MOST_PAGES];
  for (size_t i = 0; i < bytes / PAGE; ++i) pages[i] = (void*)(uintptr_t)(address + i * PAGE);
  if (syscall(SYS_move_pages, 0, bytes / PAGE, pages, NULL, nodes, 0) != 0)
    give_up("move_pages() answers nothing");
}

static void count(struct Share* share, const char* address, size_t bytes, int node) {
  for (size_t at = 0; at < bytes; at += BLOCK) {
    const size_t here = bytes - at < BLOCK ? bytes - at : BLOCK;
    ask(address + at, here);
    for (size_t i = 0; i < here / PAGE; ++i) share->there += nodes[i] == node;
    share->pages += here / PAGE;
  }
}

static void tell(const char* what, struct Share share) {
  printf("%s %.1f %zu\n", what, share.pages == 0 ? 0.0 : 100.0 * (double)share.there / (double)share.pages,
         share.pages);
  fflush(stdout);
}

static char* block_of(size_t bytes) {
  char* block = malloc(bytes);
  if (block == NULL) give_up("no memory");
  return block;
}

/* ---- what Terrace says */

static struct terrace_statistics statistics(void) {
  struct terrace_statistics out = {.size = sizeof out};
  int (*get)(struct terrace_statistics*) =
      (int (*)(struct terrace_statistics*))dlsym(RTLD_DEFAULT, "terrace_get_statistics");
  if (get != NULL && get(&out) != 0) give_up("no statistics");
  return out;
}

static void tell_status(void) {
  struct terrace_status status = {.size = sizeof status};
  int (*get)(struct terrace_status*) =
      (int (*)(struct terrace_status*))dlsym(RTLD_DEFAULT, "terrace_get_status");
  if (get == NULL || get(&status) != 0) give_up("no status");
  printf("pager %s %s mover %s io %s\n", status.pager, status.reason, status.mover, status.io);
}

static int is_under_terrace(void) { return dlsym(RTLD_DEFAULT, "terrace_get_statistics") != NULL; }

static void trim(void) {
  size_t (*give_back)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "terrace_trim");
  give_back != NULL ? give_back() : (size_t)malloc_trim(0);
}

/* ---- what is tried */

/* One thread allocates, each touches its own block. */
static void fresh_blocks(const char* name, int zeroed, size_t bytes) {
  trim();
  struct Part parts[CPUS];
  struct Share share = {0, 0};
  for (int cpu = 0; cpu < CPUS; ++cpu)
    parts[cpu] = whole(zeroed ? calloc(1, bytes) : block_of(bytes), bytes, (uint64_t)cpu + 1);
  together(fill, parts);
  for (int cpu = 0; cpu < CPUS; ++cpu) count(&share, (char*)parts[cpu].words, bytes, cpu);
  for (int cpu = 0; cpu < CPUS; ++cpu) on(1 - cpu, verify, parts[cpu]);
  tell(name, share);
  for (int cpu = 0; cpu < CPUS; ++cpu) free(parts[cpu].words);
}

/* Both threads touch one block, in turns of a run. */
static void fresh_striped(size_t bytes) {
  trim();
  char* aligned = aligned_alloc(RUN, bytes);
  if (aligned == NULL) give_up("no memory");
  const struct Part parts[CPUS] = {{(uint64_t*)aligned, bytes, 5, CPUS, 0},
                                   {(uint64_t*)aligned, bytes, 5, CPUS, 1}};
  struct Share share = {0, 0};
  together(fill, parts);
  for (size_t at = 0; at < bytes; at += RUN) count(&share, aligned + at, RUN, (int)(at / RUN % CPUS));
  on(0, verify, whole(aligned, bytes, 5));
  tell("fresh-striped", share);
  free(aligned);
}

/* What a program asks of the kernel by mbind(): memory of node 1, whoever touches it. */
static void bind_to_other(void* block, size_t bytes) {
  const unsigned long mask = 1UL << 1;
  if (syscall(SYS_mbind, block, bytes, MPOL_BIND, &mask, 8 * sizeof mask, 0) != 0)
    give_up("mbind() is refused");
}

static void unbind(void* block, size_t bytes) {
  if (syscall(SYS_mbind, block, bytes, MPOL_DEFAULT, NULL, 0, 0) != 0) give_up("mbind() is refused");
}

static void fresh_bound(size_t bytes) {
  trim();
  char* block = aligned_alloc(RUN, bytes);
  struct Share share = {0, 0};
  bind_to_other(block, bytes);
  on(0, fill, whole(block, bytes, 6));
  count(&share, block, bytes, 1);
  tell("fresh-bound", share);
  unbind(block, bytes);
  free(block);
}

/* Node 0 frees what it touched; node 1 is given memory of the same size. */
static void used_by_other(const char* name, size_t bytes) {
  trim();
  char* block = block_of(bytes);
  struct Share share = {0, 0};
  on(0, fill, whole(block, bytes, 7));
  free(block);
  block = block_of(bytes);
  on(1, fill, whole(block, bytes, 8));
  count(&share, block, bytes, 1);
  on(0, verify, whole(block, bytes, 8));
  tell(name, share);
  free(block);
}

struct Blocks {
  char* at[MOST_BLOCKS];
  size_t count;
};

static struct Blocks fill_blocks(size_t bytes, int binds) {
  struct Blocks blocks = {{NULL}, bytes / BLOCK};
  if (blocks.count > MOST_BLOCKS) give_up("too much");
  for (size_t i = 0; i < blocks.count; ++i) {
    blocks.at[i] = aligned_alloc(RUN, BLOCK);
    if (blocks.at[i] == NULL) give_up("no memory");
    if (binds && i == 0) bind_to_other(blocks.at[i], BLOCK);
    on(0, fill, whole(blocks.at[i], BLOCK, 16 + i));
  }
  return blocks;
}

static void free_blocks(struct Blocks* blocks) {
  for (size_t i = 0; i < blocks->count; ++i) free(blocks->at[i]);
}

/* A thread of the node reads the block. Of its pages that were not there before, how many came to the node.
 */
static void return_to(int node, const char* block, uint64_t seed, struct Share* share) {
  static int before[MOST_PAGES];
  ask(block, BLOCK);
  memcpy(before, nodes, sizeof before);
  on(node, verify, whole((void*)(uintptr_t)block, BLOCK, seed));
  ask(block, BLOCK);
  for (size_t i = 0; i < MOST_PAGES; ++i) {
    if (before[i] >= 0 || nodes[i] < 0) continue;
    ++share->pages;
    share->there += nodes[i] == node;
  }
}

/* Mappings of the process outside the block that are bound to a node. */
static int bound_outside(const char* block) {
  char line[1024];
  int found = 0;
  FILE* const maps = fopen("/proc/self/numa_maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    const uintptr_t at = strtoull(line, NULL, 16), begin = (uintptr_t)block;
    found += strstr(line, " bind:") != NULL && (at < begin || at >= begin + BLOCK);
  }
  if (maps != NULL) fclose(maps);
  return found;
}

/* Of all that node 0 wrote, twice the budget, node 1 reads every block, and then node 0. */
static void back_by_touch(size_t budget, int binds) {
  struct Blocks blocks = fill_blocks(2 * budget, binds);
  struct Share share = {0, 0}, bound = {0, 0}, home = {0, 0};
  for (size_t i = 0; i < blocks.count; ++i)
    return_to(1, blocks.at[i], 16 + i, binds && i == 0 ? &bound : &share);
  for (size_t i = 0; i < blocks.count; ++i) return_to(0, blocks.at[i], 16 + i, &home);
  if (binds) {
    tell("back-bound", bound);
    printf("mappings elsewhere with the policy of the block: %d\n", bound_outside(blocks.at[0]));
  } else {
    tell("back-to-other", share);
    tell("back-to-writer", home);
  }
  if (binds) unbind(blocks.at[0], BLOCK);
  free_blocks(&blocks);
}

/* The pager's own thread, on the CPU alone, or on any. */
static void agent_on(int cpu) {
  char path[64], name[32] = "";
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPUS; ++i)
    if (cpu < 0 || cpu == i) CPU_SET(i, &set);
  DIR* const tasks = opendir("/proc/self/task");
  int found = 0;
  for (struct dirent* task = NULL; tasks != NULL && (task = readdir(tasks)) != NULL;) {
    snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", task->d_name);
    FILE* const file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof name, file) != NULL && strcmp(name, "terrace-agent\n") == 0)
      found = sched_setaffinity(atoi(task->d_name), sizeof set, &set) == 0;
    fclose(file);
  }
  if (tasks != NULL) closedir(tasks);
  if (!found) give_up("the agent is not found");
}

/* While the pager is at work, node 1 touches memory that nobody had. */
static void fresh_late(const char* name, size_t bytes, int agent_cpu) {
  struct Share share = {0, 0};
  agent_on(agent_cpu);
  trim();
  char* block = block_of(bytes);
  on(1, fill, whole(block, bytes, 9));
  count(&share, block, bytes, 1);
  on(0, verify, whole(block, bytes, 9));
  tell(name, share);
  free(block);
  agent_on(-1);
}

static struct Blocks read_again;
static time_t read_until;

static void read_for_long(struct Part* part) {
  const size_t some = part->bytes / BLOCK;
  while (time(NULL) < read_until)
    for (size_t i = 0; i < some; ++i) {
      struct Part block = whole(read_again.at[i], BLOCK, 16 + i);
      verify(&block);
    }
}

static struct Share share_of_first(size_t blocks, int node) {
  struct Share share = {0, 0};
  for (size_t i = 0; i < blocks; ++i) count(&share, read_again.at[i], BLOCK, node);
  return share;
}

/* What came back to node 0 is read by a thread of node 1 for a while: does the kernel bring it there? */
static void balanced(size_t budget, int seconds) {
  const size_t some = budget / 2 / BLOCK;
  read_again = fill_blocks(2 * budget, 0);
  for (size_t i = 0; i < some; ++i) on(0, verify, whole(read_again.at[i], BLOCK, 16 + i));
  tell("read-before", share_of_first(some, 1));
  read_until = time(NULL) + seconds;
  on(1, read_for_long, whole(NULL, some * BLOCK, 0));
  tell("read-after", share_of_first(some, 1));
  for (size_t i = 0; i < read_again.count; ++i) on(1, verify, whole(read_again.at[i], BLOCK, 16 + i));
  free_blocks(&read_again);
}

int main(int words, char** word) {
  if (words < 2) give_up("the budget, in MiB, is missing");
  const size_t budget = (size_t)atol(word[1]) * MIB;
  fresh_blocks("fresh", 0, budget / 8);
  fresh_blocks("fresh-zeroed", 1, budget / 8);
  fresh_striped(budget / 4);
  fresh_bound(budget / 8);
  used_by_other("used", budget / 4);
  if (!is_under_terrace()) return 0;
  if (statistics().evictions > 0) give_up("the pager was at work too early");
  back_by_touch(budget, 0);
  tell_status();
  if (statistics().evictions == 0 || statistics().read_bytes == 0) give_up("the pager did nothing");
  fresh_late("fresh-late", budget / 4, -1);
  fresh_late("fresh-late-agent-there", budget / 4, 1);
  fresh_late("fresh-late-agent-elsewhere", budget / 4, 0);
  agent_on(0); /* so that what node 0 touches lies there */
  used_by_other("used-late", budget / 4);
  agent_on(-1);
  back_by_touch(budget, 1);
  if (words > 2) balanced(budget, atoi(word[2]));
  const struct terrace_statistics end = statistics();
  printf("evictions %llu restores %llu read %llu MiB failures %llu lost %llu\n",
         (unsigned long long)end.evictions, (unsigned long long)end.restores,
         (unsigned long long)(end.read_bytes / MIB), (unsigned long long)end.checksum_failures,
         (unsigned long long)end.lost_runs);
  return 0;
}
