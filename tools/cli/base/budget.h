// Budgets as users write them, held against what there is: `2G`, `1536MiB`, `60.5%` (wire/amount.h).
//
// A budget is met or refused with what is possible, never clamped. A percentage is of `Ceiling`: the tightest
// of the machine's memory and every cgroup ancestor's limit, because that is what the kernel will enforce.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "liballoc/wire/amount.h"
#include "liballoc/wire/result.h"

namespace terrace::cli {

using wire::parse_amount;
using wire::parse_size;

struct Ceiling {
  std::uint64_t bytes = 0;
  std::string origin;  // "the machine's memory", "the cgroup /sys/fs/cgroup/… (memory.max)"
};

// A size or a percentage of `ceiling`, within [least_bytes, ceiling]. `option` ("--dram") opens every
// message.
Result<std::uint64_t> resolve_budget(std::string_view option, std::string_view text, const Ceiling& ceiling,
                                     std::uint64_t least_bytes = wire::least_budget_bytes);

// A job's weight, from 1 to wire::most_weight.
Result<unsigned> parse_weight(const std::string& text);

// What TERRACE_DRAM and its like carry: a plain size that every parser of ours reads back exactly.
std::string exact_size(std::uint64_t bytes);

// The largest readable size that is not more than `bytes`: what a refusal tells the user to ask for.
std::string size_at_most(std::uint64_t bytes);

}  // namespace terrace::cli
