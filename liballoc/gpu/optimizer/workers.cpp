#include "liballoc/gpu/optimizer/workers.h"

#include <immintrin.h>

#include "tiers/gpu/start_without_signals.h"

namespace terrace::liballoc::optimizer {
namespace {

// The control word as a program starts with it, for as long as this lives: PyTorch's set_flush_denormal() is
// a matter of one thread, and results must not depend on which thread computes them.
class PlainArithmetic {
 public:
  PlainArithmetic() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~PlainArithmetic() { _mm_setcsr(before_); }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;

 private:
  unsigned before_;
};

}  // namespace

Workers::Workers(unsigned threads) {
  crew_.reserve(threads - 1);
  try {
    for (unsigned i = 1; i < threads; ++i)
      crew_.push_back(tiers::gpu::start_without_signals([this] { serve(); }));
  } catch (...) {
    dismiss();  // those that did start
    throw;
  }
}

void Workers::dismiss() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : crew_) thread.join();
  crew_.clear();
}

void Workers::take_all(const std::function<void(std::size_t)>& work, std::size_t count) {
  const PlainArithmetic plain;
  for (std::size_t i = next_++; i < count; i = next_++) work(i);
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;; ++seen) {
    begun_.wait(lock, [&] { return ending_ || jobs_ > seen; });
    if (ending_) return;
    const auto* const work = work_;
    const std::size_t count = count_;
    lock.unlock();
    take_all(*work, count);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

void Workers::run(std::size_t count, const std::function<void(std::size_t)>& work) {
  next_ = 0;
  if (crew_.empty() || count < 2) return take_all(work, count);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    count_ = count;
    working_ = crew_.size();
    ++jobs_;
  }
  begun_.notify_all();
  take_all(work, count);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return working_ == 0; });
}

}  // namespace terrace::liballoc::optimizer
