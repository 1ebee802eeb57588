#include "tools/cli/plan/search_watch.h"

#include <fmt/format.h>

#include <cstdio>
#include <future>
#include <optional>
#include <utility>

#include "tools/cli/base/format.h"

namespace terrace::cli {

namespace {

// A search that ends within this time needs no line.
constexpr double first_draw_s = 0.5;
constexpr double between_draws_s = 0.2;

}  // namespace

SearchWatch::SearchWatch(double seconds_per_search, bool progress, std::chrono::milliseconds patience)
    : seconds_per_search_(seconds_per_search),
      progress_(progress),
      patience_(patience),
      start_(Clock::now()) {}

SearchWatch::~SearchWatch() {
  if (worker_.joinable()) worker_.join();
}

planner::SearchControl SearchWatch::begin(const std::string& name, std::uint64_t seed,
                                          std::uint64_t capacity_bytes) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  best_bytes_ = bound_bytes_ = 0;
  next_draw_s_ = first_draw_s;
  stopped_ = false;
  start_ = Clock::now();
  return {seed, capacity_bytes, [this] { return should_stop(); },
          [this](std::uint64_t total, std::uint64_t bound) { found(total, bound); }};
}

bool SearchWatch::carry_out(std::function<void()> work) {
  constexpr auto between_looks = std::chrono::milliseconds(20);
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  worker_ = std::thread(std::move(task));
  std::optional<Clock::time_point> signalled;
  while (done.wait_for(between_looks) != std::future_status::ready) {
    if (interrupted() && !signalled) signalled = Clock::now();
    if (signalled && Clock::now() - *signalled >= patience_) return false;
  }
  worker_.join();
  done.get();
  return true;
}

bool SearchWatch::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

double SearchWatch::end() {
  const std::lock_guard lock(mutex_);
  const double seconds = elapsed();
  if (line_is_drawn_) std::fputs("\r\033[K", stderr);
  line_is_drawn_ = false;
  return seconds;
}

bool SearchWatch::interrupted() { return Interruption::seen(); }

int SearchWatch::signal_number() { return Interruption::number(); }

double SearchWatch::elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

bool SearchWatch::should_stop() {
  const double seconds = elapsed();
  const bool stop = interrupted() || (seconds_per_search_ > 0 && seconds >= seconds_per_search_);
  if (!stop && !progress_) return false;
  const std::lock_guard lock(mutex_);
  stopped_ = stopped_ || stop;
  if (progress_) draw(seconds);
  return stop;
}

void SearchWatch::found(std::uint64_t total_bytes, std::uint64_t bound_bytes) {
  const std::lock_guard lock(mutex_);
  best_bytes_ = total_bytes;
  bound_bytes_ = bound_bytes;
  if (progress_) draw(elapsed());
}

void SearchWatch::draw(double seconds) {
  if (seconds < next_draw_s_) return;
  next_draw_s_ = seconds + between_draws_s;
  line_is_drawn_ = true;
  std::string best = "nothing yet";
  if (best_bytes_ != 0) {
    const double over =
        bound_bytes_ == 0 ? 0 : static_cast<double>(best_bytes_) / static_cast<double>(bound_bytes_) - 1;
    best =
        fmt::format("{}, bound {} ({:+.2f}%)", bytes_text(best_bytes_), bytes_text(bound_bytes_), 100 * over);
  }
  fmt::print(stderr, "\r\033[K{}: {}, {:.1f} s; Ctrl-C keeps the best", name_, best, seconds);
  std::fflush(stderr);
}

}  // namespace terrace::cli
