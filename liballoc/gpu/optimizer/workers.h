// Threads that share out numbered pieces of work. What belongs to one number must not depend on another's, so
// the outcome is the same however many threads there are and whoever takes what.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "compression/parallel/thread_team.h"

namespace terrace::liballoc::optimizer {

class Workers {
 public:
  static constexpr unsigned most_threads = 256;

  // The caller is one of `threads`. Throws std::system_error where there are no more.
  explicit Workers(unsigned threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  unsigned threads() const { return team_.threads(); }

  // work(i) for each i below `count`, in ascending order of beginning; returns when all are done. `work` does
  // not throw. One caller at a time. Each thread rounds to nearest and keeps denormals meanwhile.
  void run(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  std::atomic<std::size_t> next_ = 0;
  compression::ThreadTeam team_;
};

}  // namespace terrace::liballoc::optimizer
