// Sizes and budgets as users write them: `2G`, `1536MiB`, `60%`.
//
// A budget is met or refused with what is possible, never clamped. A percentage is of `Ceiling`: the tightest
// of the machine's memory and every cgroup ancestor's limit, because that is what the kernel will enforce.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/cli/result.h"

namespace terrace::cli {

// Below this the pager's own staging would not fit.
inline constexpr std::uint64_t smallest_budget_bytes = std::uint64_t{64} << 20;

struct Ceiling {
  std::uint64_t bytes = 0;
  std::string origin;  // "the machine's memory", "the cgroup /sys/fs/cgroup/… (memory.max)"
};

// B, K, M, G, T and the KB/KiB forms, all powers of 1024, with an optional fraction ("1.5G"), no spaces.
Result<std::uint64_t> parse_size(std::string_view text);

// A size or a percentage (0 < p <= 100) of `ceiling`, within [smallest_budget_bytes, ceiling].
// `option` ("--dram") opens every message.
Result<std::uint64_t> resolve_budget(std::string_view option, std::string_view text, const Ceiling& ceiling);

// What TERRACE_DRAM and its like carry: a plain size that every parser of ours reads back exactly.
std::string exact_size(std::uint64_t bytes);

// The largest readable size that is not more than `bytes`: what a refusal tells the user to ask for.
std::string size_at_most(std::uint64_t bytes);

}  // namespace terrace::cli
