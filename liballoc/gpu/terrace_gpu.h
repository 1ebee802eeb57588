/* terrace_gpu.h - the C API of Terrace's GPU side: a heap in GPU memory, and an engine that keeps tensors in
 * host memory and on NVMe while the GPU does not need them. In libterrace_gpu.so, which needs no GPU to load.
 *
 * Any thread may call anything. Functions return 0 or -errno (unless said otherwise) and leave output
 * parameters untouched on failure; none throws, none waits for the whole device. Sizes are bytes, times
 * nanoseconds. Streams are cudaStream_t cast to void*; NULL is the default stream, and the only one on an
 * emulated device. A struct that the caller passes carries its own size first.
 */
#ifndef TERRACE_GPU_H
#define TERRACE_GPU_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TERRACE_API
#define TERRACE_API __attribute__((visibility("default")))
#endif

/* ---- The heap -------------------------------------------------------------------------------------------
 * One for each device, made at the first use from TERRACE_GPU ("cuda", "emulated:8G,…"; docs/environment.md)
 * and TERRACE_GPU_BUDGET. The signatures are those of torch.cuda.memory.CUDAPluggableAllocator. */

/* NULL with errno ENOMEM (budget or device full), EINVAL, ENODEV. Size 0 gives NULL without an error. */
TERRACE_API void* terrace_gpu_alloc(ssize_t size, int device, void* stream);
/* Stream-ordered: work already in `stream` may still use the block. NULL is allowed; an address that is not
 * a live block is reported on standard error and left alone. */
TERRACE_API void terrace_gpu_free(void* block, ssize_t size, int device, void* stream);

/* CUDAPluggableAllocator's optional setters take these (torch 2.x). */
TERRACE_API void terrace_gpu_init(int device_count);
TERRACE_API void terrace_gpu_reset(void); /* gives back every frame that no live block uses */
TERRACE_API void terrace_gpu_memory_fraction(double fraction, int device);
TERRACE_API void* terrace_gpu_base_alloc(void* block, size_t* size);
TERRACE_API void terrace_gpu_record_stream(void* block, void* stream);
/* Called before `stream` is destroyed: its address may come again, for another stream. Without it memory that
 * was freed in the old one is the new one's at once, although work of the old one may still use it. */
TERRACE_API void terrace_gpu_end_stream(void* stream);

/* Moves a live block out of GPU memory, and back to the same address. Evicted, the address is backed by host
 * memory if `keep_mapped` is not 0 (a kernel may still touch it: slow, correct), else by nothing. Returns
 * when the move is queued behind what is in `stream`; -ENOMEM leaves the block where it was. A way back that
 * fails after terrace_gpu_restore() returned is what later calls of both, and of terrace_gpu_alloc(), report.
 */
TERRACE_API int terrace_gpu_evict(void* block, int keep_mapped, void* stream);
TERRACE_API int terrace_gpu_restore(void* block, void* stream);
/* Says that no work uses the block from now on (beside what is in `stream`, and in streams that were
 * recorded) until terrace_gpu_restore() or terrace_gpu_free(): where frames are short, or a daemon calls
 * memory back, the heap evicts it without keep_mapped; else it stays, and terrace_gpu_restore() returns 0 at
 * once. -EALREADY: it is offered or evicted. */
TERRACE_API int terrace_gpu_offer(void* block, void* stream);

struct terrace_gpu_statistics {
  size_t size;
  uint64_t allocated_bytes, allocated_peak_bytes; /* as asked for, live */
  uint64_t reserved_bytes, reserved_peak_bytes;   /* frames held */
  uint64_t evicted_bytes;                         /* live, in host memory */
  uint64_t budget_bytes;                          /* 0: the device's memory */
  uint64_t allocations, frees;
  uint64_t frames_created, frames_moved; /* created in device memory; moved from one address to another */
  uint64_t stream_waits, host_waits; /* reuse across streams ordered by an event; the host waited for one */
  uint64_t failures;                 /* allocations refused */
};
TERRACE_API int terrace_gpu_get_statistics(int device, struct terrace_gpu_statistics* out);

/* ---- The offload engine --------------------------------------------------------------------------------
 * store() starts a tensor's way out and says its number; once left() is 1 its memory may be used for
 * something else, or, without waiting for that, behind leave() in the order of a stream. fetch() starts its
 * way back into memory of the caller's, and arrive() orders a stream behind it.
 *
 *   store ──► leaving ──left()=1──► stored ──fetch──► arriving ──arrive()──► (fetch again, or) release
 *                 └─────leave()=1─────▲
 *
 * A failure leaves the tensor where it was: store() that fails has done nothing; left() < 0 means that the
 * caller's memory is still the only copy. What a drive refuses to take stays in host memory. What was on the
 * drive, and every frame that a codec made, has a checksum, verified before it comes back: -EBADMSG is never
 * followed by the data. What stayed as it is in host memory has one with `checksums` "all" alone. */
typedef struct terrace_offload terrace_offload;

struct terrace_offload_config {
  size_t size;
  const char* device;         /* as --gpu; "cpu": CPU tensors, copied as fast as memory is */
  uint64_t dram_bytes;        /* most host memory the engine takes, staging included; at least 16 MiB */
  uint64_t nvme_bytes;        /* most the pool file takes; 0: no NVMe tier */
  const char* nvme_directory; /* NULL: a pool of the daemon's, if there is one and no endurance budget is set,
                                 else /var/tmp */
  const char* compress;       /* "auto", "off", "zvc", "zvc_exp", "rle", "csr8"; NULL: "off". By the device's
                                 kernels; where a build has none for CUDA, "auto" stores as it is, and a
                                 codec's name is refused (-ENOTSUP) */
  uint64_t read_ahead_bytes;  /* host memory that may hold what was read ahead of its fetch; 0: a quarter */
  uint64_t writes_per_day_bytes, writes_total_bytes; /* the drive's endurance budget; 0: none */
  const char* fault;                                 /* damage for tests, as TERRACE_FAULT; NULL: none */
  uint64_t staging_bytes; /* device memory for frames between kernel and link, taken when first needed; a
                             tensor that is larger is stored as it is; 0: a 32nd of the device's memory, at
                             most 256 MiB */
  const char* checksums; /* "drive": of what is written to the drive, and of frames; "all": also of what stays
                            in host memory, on the way there and back, for whoever looks for the cause of
                            wrong bytes; NULL: "drive" */
  const char*
      policy; /* who decides what leaves when, and when it comes back: "heuristic" (the caller's rules);
                 or a plan, of a step that repeats, by "g10", "capuchin_swap", "sentinel_interval" or
                 the "best" of them (terrace_offload_plan_…() below); NULL: "heuristic" */
  const char*
      trial; /* "on": a plan is followed for as long as neither its prediction nor its steps are slower than
                the heuristic's; "off": always, for whoever measures what plans do; NULL: "on" */
};

/* Where TERRACE_SOCKET names a daemon the engine joins it, as a session of the job TERRACE_JOB: then host
 * memory is what the daemon grants, within dram_bytes. Waits for its answer, 2 s at most. On failure `reason`
 * says what is wrong and what helps (always terminated); a refusal of the daemon's is one. */
TERRACE_API int terrace_offload_open(const struct terrace_offload_config* config, terrace_offload** out,
                                     char* reason, size_t reason_bytes);
/* Waits for what is under way, then forgets everything. No other call is running. NULL is allowed. */
TERRACE_API void terrace_offload_close(terrace_offload* engine);

/* What a codec takes the bytes for; never a matter of correctness. The numbers are
 * compression::ElementType's. */
enum terrace_element {
  TERRACE_ELEMENT_U8 = 0,
  TERRACE_ELEMENT_U16 = 1,
  TERRACE_ELEMENT_U32 = 2,
  TERRACE_ELEMENT_U64 = 3,
  TERRACE_ELEMENT_F8E4M3 = 4,
  TERRACE_ELEMENT_F8E5M2 = 5,
  TERRACE_ELEMENT_F16 = 6,
  TERRACE_ELEMENT_BF16 = 7,
  TERRACE_ELEMENT_F32 = 8,
  TERRACE_ELEMENT_F64 = 9,
};

struct terrace_offload_tensor {
  size_t size;
  const void* data; /* contiguous, on the device (or the host, with device "cpu" or an emulated one) */
  uint64_t bytes;   /* not 0 */
  enum terrace_element element;
  uint64_t site; /* equal for tensors that are alike from step to step; 0: not known */
};

/* Behind what is in `stream`. Never waits: where room has still to be made, by page-locking more host memory
 * or by writing to the drive, or is due from what was released or, for a second, from the daemon, the tensor
 * is queued for it, and left() says 0 until it had its turn. With a drive a tensor of any size that the pool
 * file has room for is stored, past host memory if need be. -ENOSPC: no tier has room (the tensor may be kept
 * where it is); -EDQUOT: the endurance budget is spent and host memory full; -EIO: the drive failed earlier
 * and host memory is full; -ENOMEM, -EAGAIN, -EPERM: the machine page-locks no more (ulimit -l, the driver, a
 * memory cgroup), and there is no drive, or too little is locked to reach it. left() may say the same later,
 * of what was queued.
 */
TERRACE_API int terrace_offload_store(terrace_offload* engine, const struct terrace_offload_tensor* tensor,
                                      void* stream, uint64_t* id);
/* 1: the tensor's own memory is not needed any more; 0: not yet; -errno: it is the only copy (release the
 * id). */
TERRACE_API int terrace_offload_left(terrace_offload* engine, uint64_t id);
/* 1: work in `stream` from now on comes behind the tensor's copy out, and so its own memory may be used for
 * something else in `stream`, from now on; 0: its copy cannot be queued yet (there is no room for it, a
 * kernel is at work on it, or a thread of the host carries it), ask again or use left(); -errno: as left().
 * For a host that is ahead of the device: nothing waits but the stream. A tensor that was to be compressed
 * and whose turn has not come goes as it is. On a device whose work the host does (cpu, emulated without a
 * lag) the host waits until the tensor has left. After a 1, a copy that the device fails to make is a loss:
 * fetch() says so. */
TERRACE_API int terrace_offload_leave(terrace_offload* engine, uint64_t id, void* stream);
/* store() and left() in one, for callers to whom calls are dear: 1: stored, and the tensor's own memory is
 * not needed any more, as of small tensors that the host copies at once; 0: stored, left() will say when;
 * -errno: not stored, as store(). */
TERRACE_API int terrace_offload_store_left(terrace_offload* engine,
                                           const struct terrace_offload_tensor* tensor, void* stream,
                                           uint64_t* id);
/* Starts the way back to `to`, memory that `stream` may use from now on, of exactly the tensor's bytes. Waits
 * only while the drive reads what was not read ahead. -EBADMSG, -EIO: the stored bytes are lost; -ENOENT: no
 * such tensor, or its step was ended; -EALREADY: a fetch to elsewhere is under way; -EINVAL: `to` is not
 * aligned to the element of a tensor that was compressed on a device. */
TERRACE_API int terrace_offload_fetch(terrace_offload* engine, uint64_t id, void* to, void* stream);
/* Work in `stream` from now on sees the tensor. On a device whose work the host does (cpu, emulated without a
 * lag) the host waits until it is there; where the tensor was compressed, until it is decoded and found
 * sound. The same errors as fetch. */
TERRACE_API int terrace_offload_arrive(terrace_offload* engine, uint64_t id, void* stream);
/* fetch() and arrive() in one: no other thread is woken for what this one would wait for. */
TERRACE_API int terrace_offload_fetch_arrive(terrace_offload* engine, uint64_t id, void* to, void* stream);
/* Forgets the tensor wherever it is, under way or not; its memory and `to` may be used for something else
 * behind what is in `stream` now (on cpu and emulated without a lag: on return). */
TERRACE_API int terrace_offload_release(terrace_offload* engine, uint64_t id, void* stream);

/* The step is over: what was stored in it and never released is forgotten, and counted; the order of its
 * fetches is what the next step's read-ahead follows. */
TERRACE_API int terrace_offload_end_step(terrace_offload* engine);
/* The same, but what was never released stays until it is: for graphs that outlive their step. */
TERRACE_API int terrace_offload_next_step(terrace_offload* engine);
/* The tensors that the next fetches probably ask for, soonest first, after `id` was fetched (0: before the
 * first); stored and not yet fetched. Returns how many of `out` were filled. */
TERRACE_API size_t terrace_offload_expect(terrace_offload* engine, uint64_t id, uint64_t* out, size_t count);

/* ---- A planned step. With a policy other than "heuristic" the engine learns what a step looks like, has it
 * planned, and says what is to be done: the caller, who owns the memory, does it. He tells of each tensor
 * that could leave, whether it does or not, by its number in the step (so many were saved before it), until
 * end_step() or next_step(), and asks for moves where the answer says that there are some. Until a plan is
 * in force, and from a departure to the end of its step, his own rules decide. Nothing of it waits. With
 * "heuristic", and on devices that are not planned for, all of them say 0. */
enum {
  TERRACE_PLAN_FOLLOWS = 1,  /* the plan decides: the tensor stays until a move says otherwise */
  TERRACE_PLAN_MOVES = 2,    /* there are moves */
  TERRACE_PLAN_DEPARTED = 4, /* this is not what the plan expected: the caller's rules are in force again */
};
/* A tensor is saved; its own memory holds it. A combination of the above, or -errno. */
TERRACE_API int terrace_offload_plan_saved(terrace_offload* engine, uint64_t number, uint64_t bytes);
/* A tensor is asked for, wherever it is. stays != 0: its memory was in use elsewhere all the time. */
TERRACE_API int terrace_offload_plan_wanted(terrace_offload* engine, uint64_t number, int stays);
/* Its device memory was let go of: it has left, or the stream orders what comes behind. */
TERRACE_API int terrace_offload_plan_gone(terrace_offload* engine, uint64_t number);
/* Device memory was taken for its way back by the caller's rules. */
TERRACE_API int terrace_offload_plan_back(terrace_offload* engine, uint64_t number);
/* So many bytes of the device are in use, for whatever, and `limit` is what there may be. Without such a call
 * a plan may take what the caller's rules took. */
TERRACE_API int terrace_offload_plan_used(terrace_offload* engine, uint64_t used, uint64_t limit);
/* The caller cannot follow: his rules decide until the step ends. */
TERRACE_API int terrace_offload_plan_depart(terrace_offload* engine);

enum terrace_plan_move {
  TERRACE_MOVE_OUT = 0,     /* store() it */
  TERRACE_MOVE_DRIVE = 1,   /* store() it, then terrace_offload_plan_write() */
  TERRACE_MOVE_GIVE_UP = 2, /* its memory is needed now: leave() */
  TERRACE_MOVE_IN = 3,      /* fetch() it; behind what is asked for at this moment */
};
struct terrace_offload_move {
  uint64_t number;
  enum terrace_plan_move what;
};
/* Takes up to `count` moves, in their order; how many. */
TERRACE_API size_t terrace_offload_plan_moves(terrace_offload* engine, struct terrace_offload_move* out,
                                              size_t count);
/* A stored tensor goes on to the drive as soon as it is there. Ignored without a drive. -ENOENT. */
TERRACE_API int terrace_offload_plan_write(terrace_offload* engine, uint64_t id);
/* One line: the plan that is in force, or why there is none. -EINVAL: no room for a byte. */
TERRACE_API int terrace_offload_plan_text(terrace_offload* engine, char* out, size_t bytes);

struct terrace_offload_statistics {
  size_t size;
  uint64_t stored, stored_bytes; /* tensors and content since the start */
  uint64_t fetched, fetched_bytes;
  uint64_t dropped;                     /* forgotten by end_step */
  uint64_t handed_back;                 /* fetched while their own memory was still there */
  uint64_t live, live_bytes;            /* now: tensors, content */
  uint64_t dram_bytes, dram_peak_bytes; /* host memory taken, slabs and staging, pinned or not */
  uint64_t dram_content_bytes;          /* of live content, as stored, in host memory */
  uint64_t nvme_bytes, nvme_peak_bytes; /* in the pool file */
  uint64_t nvme_written_bytes, nvme_read_bytes;
  uint64_t compressed_bytes, frame_bytes; /* content given to codecs, and what it became */
  uint64_t compress_ns, decompress_ns;
  uint64_t host_wait_ns; /* the caller's threads waited, in fetch, arrive and leave */
  uint64_t read_ahead_hits, read_ahead_wasted;
  uint64_t checksum_failures, io_errors;
  uint64_t writes_today_bytes,
      writes_total_bytes; /* of this drive, all jobs, as the endurance budget counts */
  uint64_t waiting_bytes; /* stored, but no tier has room yet: their own memory is still needed */
  uint64_t in_pieces;     /* tensors that went to the drive past host memory, which had no room for them */
  uint64_t not_staged;    /* stored as they are because the staging is too small, or could not be had */
  uint64_t direct_bytes;  /* of nvme_written_bytes and nvme_read_bytes: by GPUDirect Storage */
  uint64_t summed_bytes;  /* that the host's processors read for a checksum, out and back */
  /* With a policy other than "heuristic"; terrace_offload_plan_text() says why there is no plan. Of steps
   * that are all alike; the times are the middle of the last five, 0 until there were as many. */
  uint64_t plan_in_force;     /* 1: this step began under a plan */
  uint64_t plans_made;        /* whether they were followed or not */
  uint64_t planned_steps;     /* that ran under a plan to their end */
  uint64_t plan_departures;   /* steps that left the plan's sequence, and went on without it */
  uint64_t plan_refusals;     /* plans that were laid aside because steps were slower with them */
  uint64_t plan_predicted_ns; /* a step under the last plan, as the simulator says */
  uint64_t plan_step_ns, heuristic_step_ns; /* a step, with a plan and without */
  uint64_t plan_wait_ns,
      heuristic_wait_ns;     /* of the last step of each kind: what of host_wait_ns was in it */
  uint64_t dram_limit_bytes; /* host memory that may be taken now: the configured, or what the daemon grants
                                of it, if that is less */
};
TERRACE_API int terrace_offload_get_statistics(terrace_offload* engine,
                                               struct terrace_offload_statistics* out);
/* Which way the bytes go, in words: "pinned bounce buffers on NVIDIA H200 and io_uring, GPUDirect Storage to
 * /nvme", or why not that; until close. */
TERRACE_API const char* terrace_offload_path(terrace_offload* engine);
/* What the engine goes without, and what helps: the daemon that TERRACE_SOCKET names, or a pool of it; that
 * the drive's writes are not counted as the ledger cannot be kept. "" when nothing; until close. */
TERRACE_API const char* terrace_offload_warning(terrace_offload* engine);

#ifdef __cplusplus
}
#endif
#endif
