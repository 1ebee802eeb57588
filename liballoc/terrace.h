/* terrace.h - the C API of Terrace.
 *
 * Terrace's heap holds large allocations whose pages may lie in DRAM or on a slower tier; addresses never
 * change. Everything here may be called from any thread, with or without the preload library, with or
 * without a daemon. Functions that can fail return 0 or -errno and leave output parameters untouched on
 * failure; none throws, none sets errno (allocation functions excepted, which follow malloc's contract).
 * Sizes are bytes, times nanoseconds. A struct that the caller passes carries its own size first, so that
 * a program built against an older header keeps working with a newer library.
 */
#ifndef TERRACE_H
#define TERRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERRACE_API __attribute__((visibility("default")))
#define TERRACE_VERSION_MAJOR 0
#define TERRACE_VERSION_MINOR 1
#define TERRACE_VERSION_PATCH 0

/* Hints for terrace_alloc(); they steer the choice of what leaves DRAM first, never correctness. The first
 * two are for whole runs (2 MiB) of the block, and only where a pager is active; realloc keeps them. */
enum terrace_hint {
  TERRACE_HINT_NONE = 0,
  TERRACE_HINT_LONG_LIVED = 1 << 0, /* weights, optimizer state: passed over three times before it leaves */
  TERRACE_HINT_COLD =
      1 << 1, /* expected to be untouched for long: first to leave, also after it was touched */
  TERRACE_HINT_PINNED = 1 << 2, /* never leaves DRAM (as terrace_pin on the whole block) */
};

enum terrace_advice {
  TERRACE_ADVISE_WILL_NEED = 1, /* start bringing it back, in address order; returns at once */
  TERRACE_ADVISE_COLD = 2,      /* write it out ahead of need; its pages stay cached until memory is short */
  TERRACE_ADVISE_PAGE_OUT = 3,  /* write it out and give its DRAM back as soon as it is written */
};

/* Allocates `bytes` (alignment: a power of two, 0 for the default of 64) from Terrace's heap whatever the
 * threshold. Returns NULL with errno ENOMEM or EINVAL. Release with terrace_free() or, under the preload,
 * free(). Contents are undefined. */
TERRACE_API void* terrace_alloc(size_t bytes, size_t alignment, unsigned hints);

/* Releases a block of terrace_alloc(). NULL is allowed. A pointer that is not the start of a live block of
 * the heap is reported and aborts the process, as glibc does. */
TERRACE_API void terrace_free(void* block);

/* 1 if `address` lies in Terrace's heap, else 0. */
TERRACE_API int terrace_owns(const void* address);

/* Brings [address, address + bytes) into DRAM and keeps it there until as many terrace_unpin() calls.
 * Blocks until resident. Use it around DMA that is set up behind the kernel's page pinning.
 * -EINVAL: not inside one live block. -ENOMEM: the budget cannot hold it. */
TERRACE_API int terrace_pin(const void* address, size_t bytes);
TERRACE_API int terrace_unpin(const void* address, size_t bytes);

/* Advice on a range inside one live block; whole runs (2 MiB) inside the range are affected. Returns at
 * once. -EINVAL: not inside one live block, or unknown advice. -ENOTSUP: no pager is active. */
TERRACE_API int terrace_advise(const void* address, size_t bytes, enum terrace_advice advice);

/* terrace_advise(WILL_NEED), then waits until the range is resident. */
TERRACE_API int terrace_prefetch(const void* address, size_t bytes);

/* Says where the program is in what it repeats, which nobody has to say: it sharpens the clock that Terrace
 * keeps of a step (docs/marks.md). NULL or "": a step begins here; once in each step, by one thread. Else a
 * named point within a step, an event like an allocation. A name has at most TERRACE_MARK_NAME_MAX bytes,
 * which are compared as they are and kept by nobody.
 * 0: it was noted, or nobody counts steps now, as where memory is not short. -ENAMETOOLONG: the name is
 * longer. -EAGAIN: 16,384 events are waiting already; the mark is lost. Takes the heap's lock as an
 * allocation does, and never waits for more than that. Any thread, before the first allocation and after fork
 * as well; not in a signal handler. */
#define TERRACE_MARK_NAME_MAX 63
TERRACE_API int terrace_mark(const char* name);

/* Waits until no eviction or restore is under way. -ETIMEDOUT after timeout_ms (0: no limit). */
TERRACE_API int terrace_quiesce(unsigned timeout_ms);

/* Returns recycled but unused memory to the kernel. Returns the bytes given back. */
TERRACE_API size_t terrace_trim(void);

/* What a codec has done to runs on their way to the lower tier and back. */
struct terrace_codec_statistics {
  uint64_t content_bytes; /* of the runs that it compressed */
  uint64_t frame_bytes;   /* what was written in their place */
  uint64_t compress_ns, decompress_ns;
};
/* zvc, zvc_exp, rle, csr8: the order of terrace_statistics.codecs. */
#define TERRACE_CODECS 4

/* What the heap and the pager hold and have done, since the process started. */
struct terrace_statistics {
  size_t size;                       /* in: sizeof(struct terrace_statistics); out: bytes filled in */
  uint64_t heap_live_bytes;          /* live blocks, wherever their pages lie */
  uint64_t heap_peak_bytes;          /* highest heap_live_bytes so far */
  uint64_t resident_bytes;           /* every byte kept in DRAM: live, recycled, staging */
  uint64_t resident_peak_bytes;      /* highest resident_bytes so far */
  uint64_t recycled_bytes;           /* part of resident_bytes: freed pages kept for the next allocation */
  uint64_t staging_bytes;            /* part of resident_bytes: being written, being read, or cached */
  uint64_t stored_bytes;             /* live data that lies on lower tiers only */
  uint64_t budget_bytes;             /* the DRAM budget in force; 0: none */
  uint64_t allocations, frees;       /* blocks */
  uint64_t recycled_allocations;     /* allocations served without any fresh page */
  uint64_t evictions, evicted_bytes; /* runs taken out from under their address */
  uint64_t written_bytes;            /* to the drives */
  uint64_t restores, restored_bytes; /* runs put back */
  uint64_t read_bytes;               /* from the drives */
  uint64_t faults;                   /* touches of a page that was not there */
  uint64_t stall_ns;                 /* time that faults waited for their page, summed over threads */
  uint64_t prefetch_hits;            /* restores whose bytes were in DRAM before the touch */
  uint64_t prefetch_wasted;          /* runs read ahead and dropped untouched */
  uint64_t cancelled_evictions;      /* touched while leaving: taken back without a copy */
  uint64_t pinned_refusals;          /* evictions that the kernel refused because of a pin */
  uint64_t checksum_failures, io_errors, lost_runs;
  struct terrace_codec_statistics codecs[TERRACE_CODECS];
  uint64_t refaulted_bytes;  /* part of read_bytes: written, and back before a budget's worth was */
  uint64_t compressed_bytes; /* part of resident_bytes: memory that holds compressed runs */
  uint64_t kept_bytes;       /* compressed runs that went there instead of to a drive */
  uint64_t fetched_bytes;    /* and came back from there */
  uint64_t demoted_bytes;    /* part of written_bytes: what nobody wanted, moved on to a drive */
  uint64_t steps;          /* periods of the program's own that it has gone through, while memory was short */
  uint64_t steps_ns;       /* how long they took */
  uint64_t steps_stall_ns; /* part of stall_ns: in these */
  uint64_t departures;     /* times that the program left what it had repeated */
  uint64_t probes;         /* runs taken out for a moment to see when they are touched */
  uint64_t probe_ns;       /* what that took of the agent and of who touched them, about */
  uint64_t plan_refusals;  /* times that a plan was laid aside, as steps were slower with it */
  uint64_t planned_steps;  /* part of steps: gone through by a schedule from beginning to end */
  uint64_t planned_out_bytes; /* part of evicted_bytes: taken out because the schedule said so, whole runs */
  uint64_t planned_in_bytes;  /* brought back because the schedule said so, whole runs */
  uint64_t planned_late;      /* part of faults: touches of what the schedule had begun to bring back */
  uint64_t unplanned_faults;  /* part of faults: of what was away otherwise while a schedule was followed */
  uint64_t marks;             /* terrace_mark() calls that were read, while memory was short */
  uint64_t nvm_bytes;         /* what lies on NVM now, of what was put there instead of on a drive */
  uint64_t nvm_written_bytes; /* to NVM */
  uint64_t nvm_read_bytes;    /* from NVM */
  uint64_t kernel_swap_ns;    /* for how long the kernel has swapped in the pager's place */
};

/* Fills *out (at most out->size bytes). -EINVAL: NULL or a size smaller than the size field. */
TERRACE_API int terrace_get_statistics(struct terrace_statistics* out);

/* What the library can do in this process. Static strings, never NULL. */
struct terrace_status {
  size_t size;
  const char* pager;  /* "active", "inactive", "unavailable" */
  const char* reason; /* why it is not active; "" when it is */
  const char* mover;  /* "move", "mremap", "none" */
  const char* io;     /* "io_uring", "pread", "none" */
};
TERRACE_API int terrace_get_status(struct terrace_status* out);

/* "0.1.0" */
TERRACE_API const char* terrace_version(void);

#ifdef __cplusplus
}
#endif
#endif
