// NUMA nodes: which of them are slow memory, and how much of it is free, as sysfs says.
//
// Slow is a node that has memory and no processor: CXL memory, or persistent memory that the kernel uses as
// system memory (daxctl reconfigure-device --mode=system-ram). Where the kernel ranks nodes in memory tiers
// (Linux 6.1, /sys/devices/virtual/memory_tiering), it has to rank below the processors' own memory, too: a
// node without a processor may be faster, such as the HBM of a Xeon Max. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace terrace::tiers {

class NodeSet {
 public:
  static constexpr unsigned most = 1024;  // what the kernel can be built for
  using Words = std::array<unsigned long, most / (8 * sizeof(unsigned long))>;

  constexpr NodeSet() = default;

  // "0", "1-3,6", as sysfs lists them; what follows a line feed is left out. False, and nothing changes, for
  // any other text, and for an empty list.
  bool read(const char* list) noexcept;
  bool is_empty() const noexcept { return *this == NodeSet(); }
  bool has(unsigned node) const noexcept { return (words_[node / bits] >> node % bits & 1) != 0; }
  void add(unsigned node) noexcept { words_[node / bits] |= 1UL << node % bits; }
  bool meets(const NodeSet& other) const noexcept;
  void remove(const NodeSet& others) noexcept;
  // As the system calls about memory policies take them.
  const Words& words() const noexcept { return words_; }
  Words& words() noexcept { return words_; }

  friend bool operator==(const NodeSet&, const NodeSet&) = default;

 private:
  static constexpr unsigned bits = 8 * sizeof(unsigned long);

  Words words_{};
};

// `sysfs`: for tests, another root than "/sys". Empty: there is none.
NodeSet slow_nodes(const char* sysfs = "/sys") noexcept;

// What can be had of their memory now: what is free, and what holds pages of files that nobody used of late.
std::uint64_t free_bytes(const NodeSet& nodes, const char* sysfs = "/sys") noexcept;

}  // namespace terrace::tiers
