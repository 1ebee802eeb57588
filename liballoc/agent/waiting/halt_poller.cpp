#include "liballoc/agent/waiting/halt_poller.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "liballoc/base/kernel_files.h"
#include "liballoc/base/kernel_text.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/base/thread.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t look_ns = 1'000'000;  // a thread seldom moves
constexpr int most_processors = 8192;         // the most that the kernel can be built for

// "/proc/self/task/", the number, "/stat" and a zero.
struct StatPath {
  explicit StatPath(std::uint32_t thread) {
    char digits[10];
    unsigned count = 0;
    do digits[count++] = static_cast<char>('0' + thread % 10);
    while ((thread /= 10) > 0);
    char* end = text + std::strlen(text);
    while (count > 0) *end++ = digits[--count];
    std::memcpy(end, "/stat", sizeof("/stat"));
  }
  char text[16 + 10 + 5 + 1] = "/proc/self/task/";
};

bool move_to(int processor) {
  std::uint64_t mask[most_processors / 64] = {};
  mask[processor / 64] = std::uint64_t{1} << processor % 64;
  return syscall(SYS_sched_setaffinity, 0, sizeof mask, mask) == 0;
}

bool take_least_priority() {
  const sched_param none{};
  return syscall(SYS_sched_setscheduler, 0, SCHED_IDLE, &none) == 0;
}

}  // namespace

// ---- life -------------------------------------------------------------------------------------------------

void HaltPoller::start(unsigned processors) {
  if (processors < 2) return;
  follow("/proc/self/stat");
  state_.store(running, std::memory_order_release);
  if (!start_thread(&HaltPoller::thread_main, this)) state_.store(absent);
}

// One descriptor from the start on, so that the program always finds as many.
void HaltPoller::follow(const char* stat_path) {
  close_kept(stat_fd_.exchange(-1));
  stat_fd_.store(keep_descriptor(open_kernel_file(AT_FDCWD, stat_path), Descriptor::replaceable));
}

void HaltPoller::stop() {
  std::uint32_t expected = running;
  state_.compare_exchange_strong(expected, ending);
  while (state_.load() == ending) {
    until_ns_.store(0);
    asleep_.store(0);
    os::futex_wake(asleep_word(), 1);
    os::futex_wait_for(state_word(), ending, look_ns);
  }
  close_kept(stat_fd_.exchange(-1));
  thread_ = 0;
}

void HaltPoller::reset_in_child() {
  close_kept(stat_fd_.exchange(-1));
  thread_ = 0;
  state_.store(absent);
  asleep_.store(0);
  until_ns_.store(0);
  user_ns_.store(0);
  seat_.store(-1);
}

void* HaltPoller::thread_main(void* self) {
  auto* const poller = static_cast<HaltPoller*>(self);
  name_thread("terrace-poll");
  if (take_least_priority()) poller->serve();
  poller->state_.store(absent);
  return nullptr;
}

// ---- polling ----------------------------------------------------------------------------------------------

void HaltPoller::poll_beside(std::uint32_t thread, std::uint64_t until_ns) {
  if (thread != thread_) {
    thread_ = thread;
    follow(StatPath(thread).text);
  }
  until_ns_.store(until_ns);
  if (asleep_.exchange(0) != 0) os::futex_wake(asleep_word(), 1);
}

void HaltPoller::serve() {
  while (state_.load() == running) {
    if (os::now_ns() >= until_ns_.load()) {
      rest();
    } else if (!take_seat() || !poll()) {
      until_ns_.store(0);  // until it is asked anew
    }
  }
}

void HaltPoller::rest() {
  seat_.store(-1, std::memory_order_relaxed);
  asleep_.store(1);
  const bool is_wanted = os::now_ns() < until_ns_.load() || state_.load() != running;
  if (!is_wanted) os::futex_wait(asleep_word(), 1);
  asleep_.store(0);
}

// False: somebody else has work for the processor. The least priority counts among the threads of a control
// group alone, so that a job of another group would share the processor with this thread. Whoever has it for
// a while shows as a gap; the thread that is waited for then touches something next, and is not meant.
bool HaltPoller::poll() {
  constexpr std::uint64_t longest_gap_ns = 50'000;
  std::uint64_t until = until_ns_.load();
  std::uint64_t now = os::now_ns();
  bool is_alone = true;
  for (const std::uint64_t end = now + look_ns; is_alone && now < std::min(end, until);) {
    for (unsigned turn = 0; turn < 16; ++turn) __builtin_ia32_pause();
    const std::uint64_t last = std::exchange(now, os::now_ns());
    const std::uint64_t asked_before = std::exchange(until, until_ns_.load());
    is_alone = now - last <= longest_gap_ns || until != asked_before;
  }
  user_ns_.store(os::user_ns(RUSAGE_THREAD), std::memory_order_relaxed);
  return is_alone;
}

// Where the thread runs, or did last.
bool HaltPoller::take_seat() {
  const int processor = processor_of_thread();
  if (processor < 0) return false;
  if (processor != seat() && !move_to(processor)) return false;
  seat_.store(processor, std::memory_order_relaxed);
  return true;
}

// -1: it has ended, or is none of ours. The agent may change files meanwhile, and the number be another
// file's for a moment: reading leaves any as it was.
int HaltPoller::processor_of_thread() const {
  char text[1024];
  if (!read_kernel_file(stat_fd_.load(), text, sizeof text)) return -1;
  // proc(5): the 39th; the second, a name, may hold spaces and brackets.
  const char* field = std::strrchr(text, ')');
  for (unsigned number = 2; field != nullptr && number < 39; ++number) {
    field = std::strchr(field, ' ');
    field += field != nullptr ? 1 : 0;
  }
  std::uint64_t processor = 0;
  const bool is_known = field != nullptr && parse_number(field, &processor);
  return is_known && processor < most_processors ? static_cast<int>(processor) : -1;
}

}  // namespace terrace::liballoc
