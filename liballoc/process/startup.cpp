#include "liballoc/process/startup.h"

#include <atomic>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/heap/heap.h"

namespace terrace::liballoc {
namespace {

enum : int { untouched, starting, started, refused };
constinit std::atomic<int> stage{untouched};
constinit std::atomic<long> starter{0};

long thread_id() { return syscall(SYS_gettid); }

bool start() {
  Options options;
  if (!read_options(&options) || options.disabled) return false;
  set_log_level(options.log_level);
  const int error = heap().initialise(options);
  if (error == 0) return true;
  Message m(Severity::warning);
  m << "no address space for the heap (ulimit -v, ulimit -d?), ";
  m.error(error) << "; running without Terrace";
  return false;
}

}  // namespace

bool starting_in_this_thread() { return stage.load() == starting && starter.load() == thread_id(); }

bool ensure_started() {
  const int now = stage.load(std::memory_order_acquire);
  if (now == started) return true;
  if (now == refused || starting_in_this_thread()) return false;
  int expected = untouched;
  if (stage.compare_exchange_strong(expected, starting)) {
    starter.store(thread_id());
    stage.store(start() ? started : refused, std::memory_order_release);
    os::futex_wake(reinterpret_cast<const std::uint32_t*>(&stage), 1 << 30);
  }
  while (stage.load(std::memory_order_acquire) == starting) {
    os::futex_wait(reinterpret_cast<const std::uint32_t*>(&stage), starting);
  }
  return stage.load() == started;
}

}  // namespace terrace::liballoc
