// terrace bench gpu-heap: the allocations of a PyTorch profile played on the GPU heap, beside a simulation of
// PyTorch's caching allocator on the same events. Of a trace that records no allocations but uses (an
// execution trace, terrace-trace, …) each tensor is allocated with its first use and freed with its last.
//
// Both start from nothing, so the simulated figure is better than what the profile recorded, whose segments
// come from the steps before. Reserved memory, time of a call and
// driver calls are taken after each pass over the profile: the first fills the heap, the others are the
// steady state.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/planner/reuse/allocators/caching.h"
#include "liballoc/gpu/heap/heap.h"
#include "tools/bench/measuring/measure.h"
#include "tools/import/gunzip.h"
#include "tools/import/import.h"
#include "tools/import/kineto_events.h"

namespace terrace::bench {
namespace {

using Json = nlohmann::ordered_json;
using import::kineto::MemoryEvent;

constexpr const char* usage = R"(usage: terrace bench gpu-heap [options]

Replays recorded allocations on Terrace's GPU heap and on PyTorch's rules, and compares the memory that each takes.

  --profile FILE   replay this file: a Kineto profile, or a trace that `terrace plan` reads; plain or gzip
                   (df_index_resolver.json.gz of the reference data)
  --gpu SPEC       replay on this device, as `terrace run --gpu` names it (emulated:16G)
  --passes N       replay the recording so often, 2 at least (9)
  --json FILE      write all figures into this file)";

struct Step {           // an allocation or the free of one; the block's number
  std::uint64_t bytes;  // 0: free
  std::uint32_t block;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read; --profile names a Kineto profile");
  std::stringstream all;
  all << file.rdbuf();
  if (!import::is_gzip(all.str())) return all.str();
  auto text = import::gunzip(all.str(), std::uint64_t{4} << 30);
  if (!text) throw std::runtime_error(path + ": " + text.error);
  return std::move(*text);
}

struct Recorded {
  std::vector<Step> steps;
  std::uint32_t blocks = 0;
};

Recorded of_profile(const std::string& path, const std::string& text) {
  auto profile = import::kineto::read_profile(text);
  if (!profile) throw std::runtime_error(path + ": " + profile.error);
  std::vector<MemoryEvent> events;
  for (const MemoryEvent& e : profile->memory) {
    if (profile->devices[e.device] != "CPU" && e.bytes != 0) events.push_back(e);
  }
  std::stable_sort(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.time_us != b.time_us ? a.time_us < b.time_us : a.order < b.order;
  });
  Recorded out;
  std::unordered_map<std::uint64_t, std::uint32_t> live;
  for (const MemoryEvent& e : events) {
    if (e.bytes > 0) {
      live[e.address] = out.blocks;
      out.steps.push_back({static_cast<std::uint64_t>(e.bytes), out.blocks++});
    } else if (const auto found = live.find(e.address); found != live.end()) {
      out.steps.push_back({0, found->second});
      live.erase(found);
    }
  }
  for (const auto& [address, block] : live) out.steps.push_back({0, block});  // so that a pass can follow
  return out;
}

// A tensor is allocated before the first operation that names it, and freed behind the last; workspace before
// and behind its own. What is persistent is there before the first operation and behind the last.
class TraceReplay {
 public:
  explicit TraceReplay(const wire::Trace& trace) : trace_(trace), blocks_(trace.tensors.size(), none) {}

  Recorded recorded() {
    const std::vector<std::size_t> last = last_uses();
    for (std::uint32_t tensor = 0; tensor < blocks_.size(); ++tensor)
      if (trace_.tensors[tensor].persistent) allocate(tensor);
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      each_named(op, [&](std::uint32_t tensor) { allocate(tensor); });
      if (trace_.ops[op].workspace_bytes != 0) free_block(new_block(trace_.ops[op].workspace_bytes));
      each_named(op, [&](std::uint32_t tensor) {
        if (last[tensor] == op && !trace_.tensors[tensor].persistent) free(tensor);
      });
    }
    for (std::uint32_t tensor = 0; tensor < blocks_.size(); ++tensor) free(tensor);
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  template <class Do>
  void each_named(std::size_t op, Do something) const {
    for (const auto* named : {&trace_.ops[op].inputs, &trace_.ops[op].outputs})
      for (const std::uint32_t tensor : *named) something(tensor);
  }
  std::vector<std::size_t> last_uses() const {
    std::vector<std::size_t> last(blocks_.size());
    for (std::size_t op = 0; op < trace_.ops.size(); ++op)
      each_named(op, [&](std::uint32_t tensor) { last[tensor] = op; });
    return last;
  }
  std::uint32_t new_block(std::uint64_t bytes) {
    out_.steps.push_back({bytes, out_.blocks});
    return out_.blocks++;
  }
  void free_block(std::uint32_t block) { out_.steps.push_back({0, block}); }
  void allocate(std::uint32_t tensor) {
    const std::uint64_t bytes = trace_.tensors[tensor].bytes;
    if (blocks_[tensor] == none && bytes != 0) blocks_[tensor] = new_block(bytes);
  }
  void free(std::uint32_t tensor) {
    if (blocks_[tensor] != none) free_block(std::exchange(blocks_[tensor], none));
  }

  const wire::Trace& trace_;
  std::vector<std::uint32_t> blocks_;  // of tensors; none: not allocated
  Recorded out_;
};

Recorded recorded(const std::string& path) {
  const std::string text = content(path);
  const auto format = import::recognise(text);
  if (!format) throw std::runtime_error(path + ": " + format.error);
  Recorded out;
  if (*format == import::TraceFormat::kineto) {
    out = of_profile(path, text);
  } else {
    const auto imported = import::import_trace(text, *format);
    if (!imported) throw std::runtime_error(path + ": " + imported.error);
    out = TraceReplay(imported->trace).recorded();
  }
  if (out.blocks == 0)
    throw std::runtime_error(path + " has no memory events of a GPU: record with profile_memory=True");
  return out;
}

// What both allocators are asked to do.
class Ours {
 public:
  static constexpr const char* name = "terrace";
  explicit Ours(tiers::gpu::Device& device) : heap_(device) {
    if (heap_.open(0) != 0) throw std::runtime_error("the heap cannot be opened");
  }
  void* allocate(std::uint64_t bytes) {
    void* block = nullptr;
    if (heap_.allocate(bytes, nullptr, &block) != 0) throw std::runtime_error("the device is too small");
    return block;
  }
  void free(void* block) { heap_.free(block, nullptr); }
  std::uint64_t allocated() { return heap_.statistics().allocated_bytes; }
  std::uint64_t reserved() { return heap_.statistics().reserved_bytes; }
  std::uint64_t driver_calls() { return heap_.map_calls() + heap_.statistics().frames_created; }

 private:
  liballoc::gpu::Heap heap_;
};

class Simulated {
 public:
  static constexpr const char* name = "pytorch, simulated";
  std::uint64_t allocate(std::uint64_t bytes) { return allocator_.allocate(bytes).value(); }
  void free(std::uint64_t address) { allocator_.free(address); }
  std::uint64_t allocated() { return allocator_.chunks().allocated_bytes(); }
  std::uint64_t reserved() { return allocator_.chunks().reserved_bytes(); }
  std::uint64_t driver_calls() {  // one cudaMalloc for each segment; none is freed here
    const std::uint64_t now = reserved();
    calls_ += now != seen_ ? 1 : 0;
    seen_ = now;
    return calls_;
  }

 private:
  planner::CachingAllocator allocator_;
  std::uint64_t calls_ = 0, seen_ = 0;
};

template <class Allocator>
double timed_pass(Allocator& allocator, const Recorded& r) {
  std::vector<decltype(allocator.allocate(1))> blocks(r.blocks);
  const double begin = now_s();
  for (const Step& s : r.steps) {
    if (s.bytes > 0) {
      blocks[s.block] = allocator.allocate(s.bytes);
    } else {
      allocator.free(blocks[s.block]);
    }
  }
  return 1e9 * (now_s() - begin) / static_cast<double>(r.steps.size());
}

// Utilisation at every event; over time only where at least half of the peak is allocated.
template <class Allocator>
Json watched_pass(Allocator& allocator, const Recorded& r) {
  std::vector<decltype(allocator.allocate(1))> blocks(r.blocks);
  std::vector<std::pair<double, double>> seen;
  double allocated_peak = 0, reserved_peak = 0;
  const std::uint64_t before = allocator.driver_calls();
  for (const Step& s : r.steps) {
    if (s.bytes > 0) {
      blocks[s.block] = allocator.allocate(s.bytes);
    } else {
      allocator.free(blocks[s.block]);
    }
    allocator.driver_calls();
    seen.emplace_back(static_cast<double>(allocator.allocated()), static_cast<double>(allocator.reserved()));
    allocated_peak = std::max(allocated_peak, seen.back().first);
    reserved_peak = std::max(reserved_peak, seen.back().second);
  }
  double sum = 0, count = 0;
  for (const auto& [allocated, reserved] : seen) {
    if (allocated < allocated_peak / 2) continue;
    sum += allocated / reserved;
    ++count;
  }
  return {{"allocated_peak_bytes", allocated_peak},
          {"reserved_peak_bytes", reserved_peak},
          {"utilisation_at_peak", allocated_peak / reserved_peak},
          {"utilisation_over_time", sum / count},
          {"driver_calls", allocator.driver_calls() - before},
          {"driver_calls_per_allocation",
           static_cast<double>(allocator.driver_calls() - before) / static_cast<double>(r.blocks)}};
}

template <class Allocator>
Json measure(Allocator& allocator, const Recorded& r, long passes) {
  Json out;
  out["first_pass"] = watched_pass(allocator, r);
  out["second_pass"] = watched_pass(allocator, r);
  std::vector<double> ns;
  const std::uint64_t before = allocator.driver_calls();
  for (long pass = 0; pass < passes; ++pass) ns.push_back(timed_pass(allocator, r));
  out["ns_per_call"] = median(ns);
  out["driver_calls_in_timed_passes"] = allocator.driver_calls() - before;
  for (const char* pass : {"first_pass", "second_pass"}) {
    std::printf("%-20s %-12s at peak %6.2f%%  over time %6.2f%%  driver calls %6lu\n", Allocator::name, pass,
                100 * out[pass]["utilisation_at_peak"].template get<double>(),
                100 * out[pass]["utilisation_over_time"].template get<double>(),
                out[pass]["driver_calls"].template get<unsigned long>());
  }
  std::printf("%-20s %.0f ns per call, recycled\n", Allocator::name, median(ns));
  return out;
}

int run(const Arguments& arguments) {
  const Recorded r =
      recorded(arguments.text("--profile", TERRACE_REFERENCE_DATA "/kineto/df_index_resolver.json.gz"));
  const long passes = arguments.number("--passes", 9, 2, 99);
  tiers::gpu::DeviceSpec spec;
  std::string reason;
  std::unique_ptr<tiers::gpu::Device> device;
  if (tiers::gpu::parse_device(arguments.text("--gpu", "emulated:16G"), &spec, &reason) != 0 ||
      tiers::gpu::open_device(spec, &device, &reason) != 0) {
    throw std::runtime_error(reason);
  }
  Json report = begin_report("terrace-bench-gpu-heap");
  report["calls"] = r.steps.size();
  report["device"] = device->name();
  {
    Ours ours(*device);
    report["terrace"] = measure(ours, r, passes);
  }
  Simulated simulated;
  report["pytorch_simulated"] = measure(simulated, r, passes);
  const std::string path = arguments.text("--json", "");
  if (!path.empty()) write_json(path, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  using namespace terrace::bench;  // NOLINT: this is their program
  return run(Arguments(argc, argv, {"--profile", "--gpu", "--passes", "--json"}, usage));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
