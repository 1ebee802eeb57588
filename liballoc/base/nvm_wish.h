// What a job wants of NVM, as "nvm=SIZE[@PLACE]" of TERRACE_TIERS says: how much, and where. Text from
// outside: checked and bounded here.
//
//   nvm=64G               of the service's NVM where it has some, else of the machine's slow NUMA nodes
//   nvm=64G@node1         of these NUMA nodes: node1, node1-3
//   nvm=64G@/mnt/pmem     in a file of this directory, on a file system that is mounted with DAX
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "liballoc/wire/size.h"
#include "tiers/extent_allocator.h"
#include "tiers/memory/node_set.h"

namespace terrace::liballoc {

class NvmWish {
 public:
  static constexpr std::size_t place_bytes = 512;
  static constexpr const char* too_small = "nvm takes at least 4M, the size of two runs";
  static constexpr const char* too_large = "nvm takes at most 4T";
  static constexpr const char* bad_place =
      "after nvm=SIZE@ comes the absolute path of a directory, or NUMA nodes such as node1 or node1-3";
  static constexpr const char* long_place =
      "the directory after nvm=SIZE@ has more than 511 characters; name a link to it";

  constexpr NvmWish() = default;

  bool is_wanted() const noexcept { return bytes_ != 0; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool names_place() const noexcept { return place_[0] != '\0'; }
  // "" where none is named.
  const char* directory() const noexcept { return place_[0] == '/' ? place_ : ""; }
  const tiers::NodeSet& nodes() const noexcept { return nodes_; }
  const char* place() const noexcept { return place_; }

  // What comes after "nvm=". nullptr; or what is wrong, one of the texts above or `grammar`, and nothing has
  // changed.
  const char* read(std::string_view value, const char* grammar) noexcept {
    NvmWish wish;
    const std::size_t at = value.find('@');
    if (wire::read_size(value.substr(0, at), &wish.bytes_) != 0 || wish.bytes_ == 0) return grammar;
    if (wish.bytes_ < wire::least_pool_bytes) return too_small;
    if (wish.bytes_ > tiers::ExtentAllocator::max_capacity_bytes) return too_large;
    if (at != std::string_view::npos)
      if (const char* problem = wish.read_place(value.substr(at + 1))) return problem;
    *this = wish;
    return nullptr;
  }

 private:
  const char* read_place(std::string_view place) noexcept {
    constexpr std::string_view node = "node";
    if (place.size() >= place_bytes) return long_place;
    std::memcpy(place_, place.data(), place.size());
    if (place.starts_with('/')) return nullptr;
    const bool is_list = place.starts_with(node) && nodes_.read(place_ + node.size());
    return is_list && place.find('\n') == std::string_view::npos ? nullptr : bad_place;
  }

  std::uint64_t bytes_ = 0;
  tiers::NodeSet nodes_;
  char place_[place_bytes] = "";
};

}  // namespace terrace::liballoc
