// A PyTorch profile with memory events: is every allocation matched with its free, what did PyTorch reserve
// for them, and what does our placement of the same lives need?
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unordered_map>

#include "tools/bench/planner/child.h"
#include "tools/import/import.h"

namespace terrace::bench {
namespace {

constexpr const char* file = "kineto/df_index_resolver.json.gz";
constexpr const char* kineto_title = "PyTorch's memory events (Kineto, a transformer on a V100)";

struct MemoryEvent {
  double time = 0;
  std::int64_t number = 0, bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t allocated = 0, reserved = 0;
};

std::vector<MemoryEvent> gpu_events(const nlohmann::json& document) {
  std::vector<MemoryEvent> events;
  for (const auto& event : document.at("traceEvents")) {
    if (event.value("name", "") != "[memory]") continue;
    const auto& args = event.at("args");
    if (args.value("Device Type", 0) != 1) continue;
    events.push_back({event.value("ts", 0.0), args.value("Ev Idx", std::int64_t{0}),
                      args.value("Bytes", std::int64_t{0}), args.value("Addr", std::uint64_t{0}),
                      args.value("Total Allocated", std::uint64_t{0}),
                      args.value("Total Reserved", std::uint64_t{0})});
  }
  std::sort(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::pair(a.time, a.number) < std::pair(b.time, b.number);
  });
  return events;
}

struct Matching {
  long allocations = 0, matched = 0;
  std::uint64_t allocated_peak = 0, reserved_peak = 0;
};

Matching match(const std::vector<MemoryEvent>& events) {
  Matching out;
  std::unordered_map<std::uint64_t, std::int64_t> live;
  for (const MemoryEvent& event : events) {
    out.allocated_peak = std::max(out.allocated_peak, event.allocated);
    out.reserved_peak = std::max(out.reserved_peak, event.reserved);
    if (event.bytes > 0) {
      ++out.allocations;
      live[event.address] = event.bytes;
    } else if (const auto found = live.find(event.address);
               found != live.end() && found->second == -event.bytes) {
      ++out.matched;
      live.erase(found);
    }
  }
  return out;
}

// The allocations alone, without what was there before the profile began: a constant under everything would
// only flatter the ratio to the bound.
std::string lives_as_csv(const std::string& text) {
  const auto imported = import::import_kineto(text);
  if (!imported) throw std::runtime_error(std::string(file) + ": " + imported.error);
  planner::Instance lives = planner::instance_of(imported->trace);
  std::erase_if(lives.buffers, [&imported](const planner::Buffer& b) {
    return b.tensor != planner::no_tensor && imported->trace.tensors[b.tensor].persistent;
  });
  return import::csv_of(lives);
}

// A file that lives as long as this.
class Temporary {
 public:
  explicit Temporary(const std::string& content)
      : path_(
            (std::filesystem::temp_directory_path() / ("terrace-bench-" + std::to_string(getpid()) + ".csv"))
                .string()) {
    std::ofstream(path_) << content;
  }
  ~Temporary() { std::remove(path_.c_str()); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Json row(const char* what, const Json& value, const char* unit) {
  const std::string text = unit == std::string("bytes") ? fmt::format("{}", value.get<std::uint64_t>())
                           : unit == std::string("percent")
                               ? fmt::format("{:.3f}%", 100 * value.get<double>())
                           : value.is_number_integer() ? fmt::format("{}", value.get<long>())
                                                       : fmt::format("{:.3f}", value.get<double>());
  return {{"what", what}, {"text", text}, {"value", value}};
}

}  // namespace

Json measure_kineto(const PlannerOptions& options) {
  const auto text = data_file(options, file);
  if (!text) return skipped(kineto_title, std::string("no ") + file + " in the data");
  const Matching m = match(gpu_events(nlohmann::json::parse(*text)));
  const Temporary lives(lives_as_csv(*text));
  const Json plan = run_in_child({"terrace", lives.path(), options.quick ? 2.0 : 10.0, 0});
  const double gap = plan["total_bytes"].get<double>() / plan["bound_bytes"].get<double>() - 1;
  Json out = section(kineto_title, {column("what", "", "text"), column("text", "value", "count"),
                                    column("met", "met", "yes")});
  Json matched = row("of them matched with their free", m.matched, "count");
  matched["met"] = m.matched == m.allocations;
  Json above = row("above the bound", gap, "percent");
  above["met"] = plan.value("valid", false) && gap <= 0.005;
  out["rows"] = {row("allocations", m.allocations, "count"),
                 matched,
                 row("PyTorch: allocated at most, bytes", m.allocated_peak, "bytes"),
                 row("PyTorch: reserved at most, bytes", m.reserved_peak, "bytes"),
                 row("PyTorch: reserved to allocated",
                     static_cast<double>(m.reserved_peak) / static_cast<double>(m.allocated_peak), "ratio"),
                 row("buffers, without what was there before", plan["buffers"], "count"),
                 row("most alive at once, bytes", plan["bound_bytes"], "bytes"),
                 row("our placement, bytes", plan["total_bytes"], "bytes"),
                 above,
                 row("seconds", plan["seconds"], "s")};
  return out;
}

}  // namespace terrace::bench
