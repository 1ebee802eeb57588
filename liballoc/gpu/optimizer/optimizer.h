// The optimizer behind terrace_optimizer.h: who has which states, and what a step does with them.
//
// A step cuts its parameters into parts, one for each slice, orders them as the slices lie, and streams their
// blocks (stream.h). A thread takes a slice at a time: it verifies, updates and sums what is in its cache.
// Every element is computed by itself and in the same way everywhere, so the result depends on neither
// threads nor tier nor instruction set.
//
// One thread at a time. Errors are errno values; what may throw is std::bad_alloc, before anything is
// changed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "liballoc/gpu/optimizer/drive.h"
#include "liballoc/gpu/optimizer/kernels.h"
#include "liballoc/gpu/optimizer/shelf.h"
#include "liballoc/gpu/optimizer/stream.h"
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

  // As in terrace_optimizer.h.
  int add(std::uint64_t elements, unsigned planes, std::uint64_t* id, std::string* reason);
  int read(std::uint64_t id, float* const* planes, std::string* reason);
  int write(std::uint64_t id, const float* const* planes, std::string* reason);
  int step(terrace_optimizer_update* updates, std::size_t count, const terrace_optimizer_flow* flow,
           std::size_t* failed, std::string* reason);
  terrace_optimizer_statistics statistics() const;
  const char* path() const { return path_.c_str(); }
  const char* warning() const;

 private:
  struct Parameter {
    Shelf* shelf = nullptr;
    std::uint64_t first = 0, elements = 0;
  };
  struct Step;
  struct Copy;

  Optimizer(std::unique_ptr<Workers> workers, std::uint64_t staging_bytes, std::unique_ptr<Drive> drive);
  int copy(std::uint64_t id, const Copy& prototype, bool writes, std::string* reason);
  int check(const terrace_optimizer_update& update, std::string* reason) const;
  int prepare(Step* step, std::size_t* failed, std::string* reason);
  static void say_what_is_lost(int error, std::string* reason);

  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Stream> stream_;  // before drive_: which ends what is under way into the stream's memory
  std::unique_ptr<Drive> drive_;    // null: states are in DRAM
  std::array<std::unique_ptr<Shelf>, max_planes> shelves_;
  std::vector<Parameter> parameters_;
  std::uint64_t next_block_ = 0;
  std::uint64_t elements_ = 0, steps_ = 0, step_ns_ = 0;
  std::string path_;
};

}  // namespace terrace::liballoc::optimizer
