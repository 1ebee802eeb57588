// The tiers before the drives, as TERRACE_TIERS names them: "compressed=20%,nvm=64G@/mnt/pmem". Text from
// outside: checked and bounded here, for the library, the daemon and the command line alike. Allocates
// nothing.
//
//   compressed=SIZE|PERCENT   memory for compressed runs: so much, or that part of the DRAM budget, which it
//                             belongs to
//   nvm=SIZE[@PLACE]          nvm_wish.h
//   none                      alone: no tier before the drives, whatever the service has for jobs that say
//                             nothing
//
// Which comes first in the list does not matter: the chain goes from the fastest to the slowest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "liballoc/base/nvm_wish.h"
#include "liballoc/wire/size.h"

namespace terrace::liballoc {

class CompressedSize {
 public:
  constexpr CompressedSize() = default;

  bool is_wanted() const noexcept { return bytes_ != 0 || millionths_ != 0; }
  // What of a DRAM budget may hold compressed runs: at most half, as data is worked on in the rest.
  std::uint64_t of(std::uint64_t budget_bytes) const noexcept {
    return std::min(asked_of(budget_bytes), most_of(budget_bytes));
  }
  bool exceeds(std::uint64_t budget_bytes) const noexcept {
    return asked_of(budget_bytes) > most_of(budget_bytes);
  }

 private:
  friend class TierList;
  static std::uint64_t most_of(std::uint64_t budget_bytes) noexcept { return budget_bytes / 2; }
  std::uint64_t asked_of(std::uint64_t budget_bytes) const noexcept {
    // In 64 bits, for any budget that there can be: the library brings no wider division along.
    constexpr std::uint64_t page_bytes = 4096;
    return millionths_ != 0 ? budget_bytes / page_bytes * millionths_ / all * page_bytes : bytes_;
  }

  static constexpr std::uint64_t all = 1'000'000;

  std::uint64_t bytes_ = 0;
  std::uint64_t millionths_ = 0;  // 0: bytes_ says
};

class TierList {
 public:
  static constexpr const char* grammar =
      "compressed=SIZE or compressed=PERCENT, nvm=SIZE or nvm=SIZE@DIRECTORY, with a comma between both, "
      "such "
      "as compressed=20%,nvm=64G@/mnt/pmem; or none";
  static constexpr const char* twice = "compressed is named twice";
  static constexpr const char* nvm_twice = "nvm is named twice";
  static constexpr const char* too_large = "compressed DRAM takes at most 50% of the budget";

  constexpr TierList() = default;

  const CompressedSize& compressed() const noexcept { return compressed_; }
  const NvmWish& nvm() const noexcept { return nvm_; }
  // Whether the job has said something, if only "none".
  bool is_named() const noexcept { return is_none_ || compressed_.is_wanted() || nvm_.is_wanted(); }

  // nullptr; or what is wrong, one of the texts above or of NvmWish, and then nothing of it counts.
  const char* read(std::string_view text) noexcept {
    TierList list;
    list.is_none_ = text == "none";
    for (std::string_view rest = text; !list.is_none_;) {
      const std::size_t comma = rest.find(',');
      if (const char* problem = list.read_one(rest.substr(0, comma))) return problem;
      if (comma == std::string_view::npos) break;
      rest = rest.substr(comma + 1);
    }
    *this = list;
    return nullptr;
  }

 private:
  const char* read_one(std::string_view text) noexcept {
    constexpr std::string_view compressed = "compressed=";
    constexpr std::string_view nvm = "nvm=";
    if (text.starts_with(compressed)) return read_compressed(text.substr(compressed.size()));
    if (!text.starts_with(nvm)) return grammar;
    return nvm_.is_wanted() ? nvm_twice : nvm_.read(text.substr(nvm.size()), grammar);
  }

  const char* read_compressed(std::string_view value) noexcept {
    if (compressed_.is_wanted()) return twice;
    if (!value.ends_with('%'))
      return wire::read_size(value, &compressed_.bytes_) == 0 && compressed_.bytes_ != 0 ? nullptr : grammar;
    std::uint64_t share = 0;
    if (wire::read_percent(value, &share) != 0) return grammar;
    compressed_.millionths_ = share / (wire::whole_share / CompressedSize::all);
    if (compressed_.millionths_ == 0) return grammar;
    return share > wire::whole_share / 2 ? too_large : nullptr;
  }

  CompressedSize compressed_;
  NvmWish nvm_;
  bool is_none_ = false;
};

}  // namespace terrace::liballoc
