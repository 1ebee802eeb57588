#include "tools/cli/daemon/stall_causes.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/base/format.h"
#include "tools/cli/base/json_numbers.h"
#include "tools/cli/daemon/codec_rows.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

// Waits whose end is never told stay in the map; beyond this many it is emptied and counting starts over.
constexpr std::size_t most_waits = 16384;

std::string rate(const json& rates, const char* name) {
  return bytes_text(static_cast<std::uint64_t>(number(rates, name))) + "/s";
}

std::string advice_for(const json& rates, const StallCauses& causes, double unexplained) {
  const double most =
      std::max({causes.pool_seconds, causes.put_back_seconds, causes.leaving_seconds, unexplained});
  if (most == causes.pool_seconds)
    return fmt::format(
        "mostly for data in the pool ({} {}): raise --dram, or use a faster --pool if its disk is busy",
        rate(rates, "read_bytes"), compresses(rates) ? "read, checked and decoded" : "read and checked");
  if (most == causes.put_back_seconds)
    return "mostly for data taken out but still in DRAM: a slightly larger --dram helps";
  if (most == causes.leaving_seconds)
    return "mostly for data wanted again while it leaves: it needs more than --dram at once";
  return fmt::format("mostly for free memory: the pool takes old data too slowly ({} written)",
                     rate(rates, "written_bytes"));
}

}  // namespace

void StallAttribution::take(const std::string& socket, const json& event) {
  const std::string kind = event.value("kind", "");
  if (kind == "fault" && !event.contains("address")) {
    found_[{socket, event.value("job", "")}].is_hidden = true;
    return;
  }
  const Run run{socket, whole(event, "session"), whole(event, "address")};
  if (kind == "fault") {
    if (waiting_.size() >= most_waits) waiting_.clear();
    waiting_.try_emplace(run, Wait{whole(event, "time_ns"), false});
  } else if (kind == "read_done") {
    if (const auto wait = waiting_.find(run); wait != waiting_.end()) wait->second.read = true;
  } else if (kind == "restore" || kind == "cancel") {
    finish(run, event, kind == "cancel");
  } else if (kind == "evict" || kind == "free") {
    waiting_.erase(run);  // it had been there all along: a first touch
  }
}

void StallAttribution::finish(const Run& run, const json& event, bool cancelled) {
  const auto wait = waiting_.find(run);
  if (wait == waiting_.end()) return;
  const std::uint64_t end_ns = std::max(whole(event, "time_ns"), wait->second.since_ns);
  const double seconds = static_cast<double>(end_ns - wait->second.since_ns) / 1e9;
  StallCauses& causes = found_[{run.socket, event.value("job", "")}];
  (cancelled           ? causes.leaving_seconds
   : wait->second.read ? causes.pool_seconds
                       : causes.put_back_seconds) += seconds;
  ++causes.waits;
  waiting_.erase(wait);
}

StallCauses StallAttribution::collect(const std::string& socket, const std::string& job) {
  const auto found = found_.extract({socket, job});
  return found.empty() ? StallCauses{} : found.mapped();
}

bool compresses(const json& row) { return !codec_rows(row).empty(); }

std::string why_slow(const json& rates, const StallCauses& causes, bool complete) {
  const std::string pager = rates.value("pager", "");
  if (number(rates, "io_errors") > 0 || number(rates, "lost_runs") > 0)
    return "the pool's disk returns errors: see 'terrace events'";
  if (!pager.empty() && pager != "active")
    return fmt::format("the pager is {}: nothing leaves DRAM; 'terrace doctor' says what is missing", pager);
  const double stall = number(rates, "stall_seconds");
  if (stall < 0.01) return "not waiting for Terrace";
  if (causes.is_hidden) return "for data; what for, only its own user and administrators may see";
  return advice_for(rates, causes, complete ? std::max(stall - causes.known_seconds(), 0.0) : 0.0);
}

}  // namespace terrace::cli
