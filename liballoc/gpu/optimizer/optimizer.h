// The optimizer behind terrace_optimizer.h: who has which states, and what a step does with them.
//
// A step cuts its parameters into parts, one for each slice, orders them as the slices lie, and streams their
// blocks (stream.h). A thread takes a slice at a time: it verifies, updates and sums what is in its cache.
// Every element is computed by itself and in the same way everywhere, so the result depends on neither
// threads nor tier nor instruction set.
//
// Where a daemon grants host memory (share.h), states beyond the grant lie on its drive (placement.h). They
// move at the end of a step, and between steps on the session's thread, which then holds the optimizer for a
// moment at a time.
//
// One thread at a time. Errors are errno values; what may throw is std::bad_alloc, before anything is
// changed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "liballoc/gpu/optimizer/block_memory.h"
#include "liballoc/gpu/optimizer/drive.h"
#include "liballoc/gpu/optimizer/placement.h"
#include "liballoc/gpu/optimizer/share.h"
#include "liballoc/gpu/optimizer/shelf.h"
#include "liballoc/gpu/optimizer/stream.h"
#include "liballoc/gpu/optimizer/update/kernels.h"
#include "liballoc/gpu/optimizer/workers.h"
#include "liballoc/gpu/terrace_optimizer.h"

namespace terrace::liballoc::optimizer {

class Optimizer {
 public:
  // 0 or errno with *reason.
  static int open(const terrace_optimizer_config& config, std::unique_ptr<Optimizer>* out,
                  std::string* reason);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  ~Optimizer();

  // As in terrace_optimizer.h.
  int add(std::uint64_t elements, unsigned planes, std::uint64_t* id, std::string* reason);
  int read(std::uint64_t id, float* const* planes, std::string* reason);
  int write(std::uint64_t id, const float* const* planes, std::string* reason);
  int step(terrace_optimizer_update* updates, std::size_t count, const terrace_optimizer_flow* flow,
           std::size_t* failed, std::string* reason);
  terrace_optimizer_statistics statistics() const;
  const char* path() const { return path_.c_str(); }
  const char* warning();

 private:
  struct Parameter {
    Shelf* shelf = nullptr;
    std::uint64_t first = 0, elements = 0;
  };
  struct Step;
  struct Copy;

  Optimizer() = default;
  int open_parts(const terrace_optimizer_config& config, std::string* reason);
  void open_path();
  // Held by whoever calls, and by the session's thread where nobody does.
  class Hold;

  std::vector<Block*> all_blocks(std::vector<Block*> blocks);
  std::uint64_t staging_for(std::uint64_t limit_bytes) const;
  std::uint64_t dram_for(std::uint64_t state_bytes) const;
  void fit_staging();
  bool settle(std::uint64_t most_bytes);
  void settle_aside();
  offload::Report report();
  int copy(std::uint64_t id, const Copy& prototype, bool writes, std::string* reason);
  int check(const terrace_optimizer_update& update, std::string* reason) const;
  int prepare(Step* step, std::size_t* failed, std::string* reason);
  static void say_what_is_lost(int error, std::string* reason);

  Share share_;  // goes last: the memory that it was granted is free by then
  std::mutex mutex_;
  std::atomic<unsigned> callers_ = 0;  // who hold the optimizer or wait for it
  std::unique_ptr<Workers> workers_;
  BlockMemory memory_;  // before drive_, as stream_: which ends what is under way into them
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Drive> drive_;          // null: states are in DRAM
  bool lives_on_drive_ = false;           // else in DRAM, as far as the daemon grants it
  std::unique_ptr<Placement> placement_;  // null: no drive
  std::uint64_t staging_bytes_ = 0;       // as configured
  std::uint64_t failed_grant_ = 0;        // the drive moved nothing more under it
  std::array<std::unique_ptr<Shelf>, max_planes> shelves_;
  std::vector<Parameter> parameters_;
  std::uint64_t next_block_ = 0;
  std::atomic<std::uint64_t> state_bytes_ = 0;  // of all blocks
  std::uint64_t reported_peak_bytes_ = 0;       // the session's thread's
  std::uint64_t elements_ = 0, steps_ = 0, step_ns_ = 0;
  std::string path_, warning_, moving_warning_, told_warning_;
};

}  // namespace terrace::liballoc::optimizer
