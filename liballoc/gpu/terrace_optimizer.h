/* terrace_optimizer.h - the C API of optimizers whose states live off the device: Adam, AdamW and SGD with
 * momentum over float, bf16 and fp16 parameters in host memory, with states and master weights in float in
 * DRAM or on an NVMe drive. In libterrace_gpu.so, which needs no GPU to load.
 *
 * After ZeRO-Offload (Ren et al., USENIX ATC 2021, sections 4 and 5) and ZeRO-Infinity (Rajbhandari et al.,
 * SC 2021, section 5.2). Formulas and roundings: docs/optimizer.md.
 *
 * One thread at a time calls functions of one optimizer. Functions return 0 or -errno (unless said otherwise)
 * and leave output parameters untouched on failure; none throws. `reason` gets what is wrong and what helps,
 * always terminated. Sizes are bytes, times nanoseconds. A struct that the caller passes carries its own size
 * first. Denormals are kept, whatever the calling thread has set.
 */
#ifndef TERRACE_OPTIMIZER_H
#define TERRACE_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TERRACE_API
#define TERRACE_API __attribute__((visibility("default")))
#endif

typedef struct terrace_optimizer terrace_optimizer;

struct terrace_optimizer_config {
  size_t size;
  uint64_t nvme_bytes;        /* most the pool file takes, 64 KiB to 4 TiB; 0: states are in DRAM */
  const char* nvme_directory; /* NULL: the daemon's pool, or /var/tmp */
  uint64_t staging_bytes; /* host memory for states on their way from and to the drive; at least 16 MiB; 0:
                             64 MiB. Not taken without a drive. */
  unsigned threads;       /* that compute, the caller's among them, at most 256; 0: one for each processor */
  uint64_t writes_per_day_bytes, writes_total_bytes; /* the drive's endurance budget; 0: none */
  const char* fault;                                 /* damage for tests, as TERRACE_FAULT; NULL: none */
};

/* Joins the daemon that TERRACE_SOCKET names, and waits for it 2 s at most: what is taken of host memory is
 * part of the job's budget then. Of states in DRAM those beyond what is granted lie in the daemon's pool, if
 * there is one, and move between steps. Where pools are encrypted and none is granted there is no drive
 * without a directory of its own: states are in DRAM, and terrace_optimizer_warning() says so. -EINVAL: a
 * number out of range; the daemon's refusal; else the errno of the drive's directory. */
TERRACE_API int terrace_optimizer_open(const struct terrace_optimizer_config* config, terrace_optimizer** out,
                                       char* reason, size_t reason_bytes);
/* Forgets all states. NULL is allowed. */
TERRACE_API void terrace_optimizer_close(terrace_optimizer* optimizer);

/* States of a parameter of `elements` elements: `planes` arrays of as many floats, 1 to 4, all zero. Its
 * number is *id. -ENOSPC and the errno of the pool file: the drive has no room; -ENOMEM. */
TERRACE_API int terrace_optimizer_add(terrace_optimizer* optimizer, uint64_t elements, unsigned planes,
                                      uint64_t* id, char* reason, size_t reason_bytes);
/* The states themselves, all of a plane: planes[k] points to `elements` floats, or is NULL to leave plane k
 * out. -EBADMSG, -EIO: what lies on the drive is damaged or cannot be read (what was copied until then is);
 * -ENOENT: no such parameter. */
TERRACE_API int terrace_optimizer_read(terrace_optimizer* optimizer, uint64_t id, float* const* planes,
                                       char* reason, size_t reason_bytes);
TERRACE_API int terrace_optimizer_write(terrace_optimizer* optimizer, uint64_t id, const float* const* planes,
                                        char* reason, size_t reason_bytes);

enum terrace_optimizer_kind { TERRACE_OPTIMIZER_ADAM = 0, TERRACE_OPTIMIZER_SGD = 1 };
enum terrace_optimizer_flag {
  TERRACE_OPTIMIZER_MAXIMIZE = 1,
  TERRACE_OPTIMIZER_DECOUPLED = 2,     /* weight decay as AdamW's: of the parameter, not of the gradient */
  TERRACE_OPTIMIZER_AMSGRAD = 4,       /* Adam: a third state, the largest second moment so far */
  TERRACE_OPTIMIZER_NESTEROV = 8,      /* SGD */
  TERRACE_OPTIMIZER_LERP = 16,         /* Adam: the first moment moves by lerp, as in PyTorch since 2.0 */
  TERRACE_OPTIMIZER_FUSED_SQUARE = 32, /* Adam: the second moment's sum is rounded once with its product */
};
/* The states are, in the order of planes: Adam exp_avg, exp_avg_sq, with AMSGRAD max_exp_avg_sq; SGD
 * momentum_buffer. After them come the master weights of a parameter that is not in float. */
struct terrace_optimizer_rule {
  size_t size;
  int kind;
  unsigned flags;
  double lr, weight_decay;
  double beta1, beta2, eps;   /* Adam */
  double momentum, dampening; /* SGD */
};

enum terrace_optimizer_type {
  TERRACE_OPTIMIZER_F32 = 0,
  TERRACE_OPTIMIZER_BF16 = 1,
  TERRACE_OPTIMIZER_F16 = 2
};

struct terrace_optimizer_update {
  size_t size;
  uint64_t id;
  void* parameter;      /* contiguous, of `elements` elements, aligned to its type; read and written */
  const void* gradient; /* likewise; read */
  int parameter_type, gradient_type;
  uint64_t step; /* this parameter's updates so far, and this one: from 1 */
  const struct terrace_optimizer_rule* rule;
  uint64_t done_elements; /* out: so many, from the first on, were updated; the rest is as it was */
};

/* For parameters whose bytes come from elsewhere, a GPU: called on the caller's thread, in the order in which
 * updates are carried out: of fewer planes first, among them in the order of their ids. ready() is called
 * before the first access to an update's parameter and gradient and may set both pointers; what it returns
 * but 0 ends the step with that. done() is called when both are not accessed any more. */
struct terrace_optimizer_flow {
  size_t size;
  void* context;
  int (*ready)(void* context, size_t index);
  void (*done)(void* context, size_t index);
};

/* Updates parameters and states. On return nothing is under way. -EBADMSG: a state's checksum does not fit;
 * -EIO and other errnos: it cannot be read, -EINVAL, -ENOENT: an update is malformed (then nothing is done).
 * After a failure done_elements say what was carried out, which stands; *failed is the update that was not,
 * and `reason` has the words. A drive that refuses a write fails nothing: that state stays in DRAM from then
 * on (terrace_optimizer_warning), or, where there is no room, is lost: -ENOMEM, after all else was done. An
 * id comes once at most. `flow` may be NULL. */
TERRACE_API int terrace_optimizer_step(terrace_optimizer* optimizer, struct terrace_optimizer_update* updates,
                                       size_t count, const struct terrace_optimizer_flow* flow,
                                       size_t* failed, char* reason, size_t reason_bytes);

struct terrace_optimizer_statistics {
  size_t size;
  uint64_t parameters, elements; /* added */
  uint64_t steps;
  uint64_t dram_bytes;    /* host memory taken for states: all without a drive; what the drive refused */
  uint64_t staging_bytes; /* host memory taken to stream */
  uint64_t nvme_bytes;    /* taken of the pool file */
  uint64_t nvme_read_bytes, nvme_written_bytes;
  uint64_t checksum_failures, io_errors;
  uint64_t step_ns, drive_wait_ns; /* in steps; of that, waiting for the drive */
  uint64_t writes_today_bytes,
      writes_total_bytes;    /* of this drive, all jobs, as the endurance budget counts */
  uint64_t dram_limit_bytes; /* host memory that the daemon grants; 0 without one */
};
TERRACE_API int terrace_optimizer_get_statistics(terrace_optimizer* optimizer,
                                                 struct terrace_optimizer_statistics* out);
/* "avx512 on 8 threads, states in DRAM", "… on NVMe in /nvme by io_uring, O_DIRECT"; until close. */
TERRACE_API const char* terrace_optimizer_path(terrace_optimizer* optimizer);
/* What the optimizer goes without, and what helps: "" when nothing; until the next call. */
TERRACE_API const char* terrace_optimizer_warning(terrace_optimizer* optimizer);

#ifdef __cplusplus
}
#endif
#endif
