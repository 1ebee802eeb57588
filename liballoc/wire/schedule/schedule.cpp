#include "liballoc/wire/schedule/schedule.h"

#include <iterator>

namespace terrace::wire {
namespace {

constexpr const char* clock_names[] = {"allocations", "operations", "saves"};
constexpr const char* action_names[] = {"out", "in", "drop", "redo", "wait", "stage"};
constexpr const char* order_names[] = {"asked", "deadline"};
static_assert(std::size(clock_names) == static_cast<std::size_t>(Clock::count));
static_assert(std::size(action_names) == static_cast<std::size_t>(Action::count));
static_assert(std::size(order_names) == static_cast<std::size_t>(Order::count));

}  // namespace

const char* name_of(Clock clock) noexcept {
  return clock < Clock::count ? clock_names[static_cast<std::size_t>(clock)] : "unknown";
}

const char* name_of(Action action) noexcept {
  return action < Action::count ? action_names[static_cast<std::size_t>(action)] : "unknown";
}

const char* name_of(Order order) noexcept {
  return order < Order::count ? order_names[static_cast<std::size_t>(order)] : "unknown";
}

}  // namespace terrace::wire
