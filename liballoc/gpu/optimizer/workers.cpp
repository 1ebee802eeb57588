#include "liballoc/gpu/optimizer/workers.h"

#include <immintrin.h>

#include <utility>

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

Workers::Workers(unsigned threads)
    : team_(threads, [](std::function<void()> function) {
        return tiers::gpu::start_without_signals(std::move(function));
      }) {}

void Workers::run(std::size_t count, const std::function<void(std::size_t)>& work) {
  next_ = 0;
  const auto share = [&](unsigned) {
    const PlainArithmetic plain;
    for (std::size_t i = next_++; i < count; i = next_++) work(i);
  };
  count < 2 ? share(0) : team_.run(share);
}

}  // namespace terrace::liballoc::optimizer
