// The tiers before the drives, as TERRACE_TIERS names them: "compressed=25%", "nvm=/mnt/pmem0:64G" or both, the
// fastest first. Text from outside: checked and bounded here, for the library and the command line alike.
// Allocates nothing.
//
//   compressed=SIZE|PERCENT   memory for compressed runs: so much, or that part of the DRAM budget, which it
//                             is a part of
//   nvm=DIRECTORY:SIZE        so much of the persistent memory whose file system is mounted there
//   nvm=nodes:SIZE            so much of the machine's NUMA nodes of slow memory
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "liballoc/wire/size.h"

namespace terrace::liballoc {

class CompressedSize {
 public:
  constexpr CompressedSize() = default;

  bool is_wanted() const noexcept { return bytes_ != 0 || share_ != 0; }
  // What of a DRAM budget may hold compressed runs: at most half, as data is worked on in the rest.
  std::uint64_t of(std::uint64_t budget_bytes) const noexcept {
    const std::uint64_t asked = share_ != 0 ? wire::share_of(budget_bytes, share_) : bytes_;
    return std::min(asked, budget_bytes / 2);
  }
  // More than that was asked for.
  bool exceeds(std::uint64_t budget_bytes) const noexcept { return share_ == 0 && bytes_ > budget_bytes / 2; }

 private:
  friend class TierList;
  std::uint64_t bytes_ = 0;
  std::uint64_t share_ = 0;  // in wire::whole_share; 0: bytes_ says
};

class TierList {
 public:
  static constexpr std::size_t path_bytes = 512;
  static constexpr std::string_view slow_nodes = "nodes";
  static constexpr const char* grammar =
      "compressed=SIZE or compressed=PERCENT (at most 50%), nvm=DIRECTORY:SIZE or nvm=nodes:SIZE, with a comma "
      "between them";
  static constexpr const char* twice = "each kind of tier once";
  static constexpr const char* order = "compressed DRAM is faster than NVM: name it first";
  static constexpr const char* too_long = "a directory with more than 511 characters; name a link to it";
  static constexpr const char* too_large = "compressed DRAM takes at most 50% of the budget";

  constexpr TierList() = default;

  const CompressedSize& compressed() const noexcept { return compressed_; }
  bool has_nvm() const noexcept { return nvm_bytes_ != 0; }
  std::uint64_t nvm_bytes() const noexcept { return nvm_bytes_; }
  // "nodes", or a directory.
  const char* nvm_place() const noexcept { return nvm_place_; }
  bool nvm_is_nodes() const noexcept { return slow_nodes == nvm_place_; }

  // nullptr; or what is wrong, one of the texts above, and then nothing of it counts.
  const char* read(const char* text) noexcept {
    TierList read;
    for (std::string_view rest = text;;) {
      const std::size_t comma = rest.find(',');
      if (const char* problem = read.read_one(rest.substr(0, comma))) return problem;
      if (comma == std::string_view::npos) break;
      rest = rest.substr(comma + 1);
    }
    *this = read;
    return nullptr;
  }

 private:
  const char* read_one(std::string_view text) noexcept {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return grammar;
    const std::string_view kind = text.substr(0, equals);
    const std::string_view value = text.substr(equals + 1);
    if (kind == "compressed") return read_compressed(value);
    return kind == "nvm" ? read_nvm(value) : grammar;
  }

  const char* read_compressed(std::string_view value) noexcept {
    if (compressed_.is_wanted()) return twice;
    if (has_nvm()) return order;
    if (value.ends_with('%')) {
      if (wire::read_percent(value, &compressed_.share_) != 0) return grammar;
      return compressed_.share_ > wire::whole_share / 2 ? too_large : nullptr;
    }
    return wire::read_size(value, &compressed_.bytes_) == 0 && compressed_.bytes_ != 0 ? nullptr : grammar;
  }

  const char* read_nvm(std::string_view value) noexcept {
    if (has_nvm()) return twice;
    const std::size_t colon = value.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return grammar;
    const std::string_view place = value.substr(0, colon);
    if (place.size() >= path_bytes) return too_long;
    if (place != slow_nodes && place[0] != '/') return grammar;
    std::memcpy(nvm_place_, place.data(), place.size());
    nvm_place_[place.size()] = '\0';
    return wire::read_size(value.substr(colon + 1), &nvm_bytes_) == 0 && nvm_bytes_ != 0 ? nullptr : grammar;
  }

  CompressedSize compressed_;
  std::uint64_t nvm_bytes_ = 0;
  char nvm_place_[path_bytes] = "";
};

}  // namespace terrace::liballoc
