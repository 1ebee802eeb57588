// What is known of when a block is touched next. Asked by who holds the gate; may not wait.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class NextUses {
 public:
  static constexpr std::uint32_t unknown = UINT32_MAX;
  static constexpr std::uint32_t ends_before = UINT32_MAX - 1;  // it is freed, and not touched until then

  // In how many events of the period the block is touched next; 0: before the next event.
  virtual std::uint32_t events_to_use(std::uint32_t block) = 0;

 protected:
  constexpr NextUses() = default;
  ~NextUses() = default;
};

}  // namespace terrace::liballoc
