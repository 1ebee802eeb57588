// Threads that share out numbered pieces of work. What belongs to one number must not depend on another's, so
// the outcome is the same however many threads there are and whoever takes what.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace terrace::liballoc::optimizer {

class Workers {
 public:
  static constexpr unsigned most_threads = 256;

  // The caller is one of `threads`. Throws std::system_error where there are no more.
  explicit Workers(unsigned threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { dismiss(); }

  unsigned threads() const { return static_cast<unsigned>(crew_.size()) + 1; }

  // work(i) for each i below `count`, in ascending order of beginning; returns when all are done. `work` does
  // not throw. One caller at a time. Each thread rounds to nearest and keeps denormals meanwhile.
  void run(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  void serve();
  void take_all(const std::function<void(std::size_t)>& work, std::size_t count);
  void dismiss();

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;  // under mutex_, as the next four
  std::size_t count_ = 0;
  std::uint64_t jobs_ = 0;
  std::size_t working_ = 0;
  bool ending_ = false;
  std::atomic<std::size_t> next_ = 0;
  std::vector<std::thread> crew_;
};

}  // namespace terrace::liballoc::optimizer
