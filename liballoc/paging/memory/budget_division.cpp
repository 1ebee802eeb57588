#include "liballoc/paging/memory/budget_division.h"

#include <algorithm>

#include "liballoc/base/message.h"

namespace terrace::liballoc {
namespace {

// Under 64 MiB the codec's buffers are better used to page with.
constexpr std::uint64_t least_runs_to_compress = 32;
constexpr std::uint64_t least_runs_by_default = std::uint64_t{100} * RunCodec::memory_runs;

}  // namespace

void BudgetDivision::compress(Compression compression, std::uint64_t budget_bytes) {
  compression_ = compression;
  const bool is_asked_for = compression > Compression::off && compression < Compression::by_budget;
  if (is_asked_for && budget_bytes / run_bytes < least_runs_to_compress)
    Message(Severity::warning) << "TERRACE_COMPRESS: a budget under 64 MiB leaves no room for it; nothing is "
                                  "compressed until it grows";
}

void BudgetDivision::divide(std::uint64_t bytes) {
  fit_codec(bytes / run_bytes);
  if (compressed_.is_wanted())
    parts_.extents.tier().set_memory_limit(parts_.codec.is_on() ? compressed_.of(bytes) : 0);
  const auto granted =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / run_bytes, parts_.runs.size()));
  const std::uint32_t most = granted - std::min(granted, 1U);
  parts_.budget.share(granted - std::min(most, parts_.codec.taken_runs()));
  parts_.runs.set_age_of_cold(parts_.budget.runs());
}

// A shelf of ours tells the budget by itself (shelf_memory.h), other memory does not.
void BudgetDivision::follow_compressed() {
  const std::uint32_t kept = parts_.extents.memory_runs();
  if (kept != parts_.budget.kept_runs()) parts_.budget.keep(kept);
  if (kept == followed_runs_) return;
  followed_runs_ = kept;
  parts_.runs.set_age_of_cold(parts_.budget.runs());
}

// A process that joins a job begins with little and is granted more, and what is granted is taken back for
// others.
void BudgetDivision::fit_codec(std::uint64_t runs) {
  const bool is_free = compression_ == Compression::by_budget;
  const bool by_default = is_free && !compressed_.is_wanted();
  const bool has_room = runs >= (by_default ? least_runs_by_default : least_runs_to_compress);
  const Compression wanted = is_free ? Compression::automatic : compression_;
  if (parts_.codec.use(has_room ? wanted : Compression::off) == 0) return;
  Message(Severity::warning) << "no memory for compressing; nothing is compressed";
  compression_ = Compression::off;
}

}  // namespace terrace::liballoc
