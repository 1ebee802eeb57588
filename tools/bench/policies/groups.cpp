#include <fmt/format.h>

#include <algorithm>

#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/trace_json.h"
#include "tools/bench/planner/step.h"
#include "tools/bench/policies/parts.h"
#include "tools/bench/policies/scaled_batch.h"

namespace terrace::bench {
namespace {

using planner::Machine;
using wire::Trace;

constexpr double gpu_shares[] = {0.8, 0.6, 0.4};  // of the most that lives at once
constexpr std::uint64_t made_up_steps = 3;        // of 1,000 operations each

struct Kind {
  const char* name;
  const char* title;
  PolicyGroup (*make)(const PlannerOptions& options, const Kind& kind);
  double share = 0;
  const char* machine = nullptr;  // a built-in one
  double batch = 1;               // to that of the traces
  bool by_name = false;           // runs only where --only names it
};

// "g10/BERT_Base-256.json.gz" is "BERT_Base-256".
std::string workload_of(const std::string& file) {
  const std::size_t begin = file.find('/') + 1;
  return file.substr(begin, file.size() - begin - std::string(".json.gz").size());
}

template <class MachineFor>
PolicyGroup from_files(const PlannerOptions& options, const Kind& kind, const char* folder,
                       MachineFor machine_of) {
  PolicyGroup group{kind.name, kind.title, {}, {}, {}};
  for (const std::string& file : data_files(options, folder, ".json.gz")) {
    if (options.quick && !group.cases.empty()) break;
    Result<Trace> trace = planner::parse_trace(*data_file(options, file));
    if (!trace) continue;
    Machine machine = machine_of(*trace);
    group.cases.push_back({workload_of(file), std::move(*trace), std::move(machine)});
  }
  if (group.cases.empty()) group.missing = fmt::format("no {}/*.json.gz in the data", folder);
  return group;
}

PolicyGroup g10(const PlannerOptions& options, const Kind& kind) {
  return from_files(options, kind, "g10",
                    [&](const Trace&) { return *planner::built_in_machine(kind.machine); });
}

constexpr std::uint64_t little_host_bytes = std::uint64_t{16} << 30;

// Memory without pages, as an allocator of one address space has it.
PolicyGroup g10_placed(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = g10(options, kind);
  for (PolicyCase& c : group.cases) c.machine.tiers[0].paged = false;
  return group;
}

// Less host memory, so that much must go to the SSD.
PolicyGroup g10_little_host(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = g10(options, kind);
  for (PolicyCase& c : group.cases) c.machine.tiers[1].capacity_bytes = little_host_bytes;
  return group;
}

// The same with a far route from host memory to the SSD, over the SSD's link.
PolicyGroup g10_joined(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = g10_little_host(options, kind);
  for (PolicyCase& c : group.cases) c.machine.far_routes = {{1, 2, {1}}};
  return group;
}

PolicyGroup g10_scaled(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = g10(options, kind);
  for (PolicyCase& c : group.cases) {
    c.trace = with_scaled_batch(std::move(c.trace), kind.batch);
    c.workload += fmt::format(" x {}", kind.batch);
  }
  group.note = fmt::format(
      "scaled, not measured: what scales with the batch, and times, are {} of the recorded ones", kind.batch);
  return group;
}

PolicyGroup dtr(const PlannerOptions& options, const Kind& kind) {
  return from_files(options, kind, "dtr", [&](const Trace& trace) { return machine_for(trace, kind.share); });
}

PolicyGroup made_up_by(const PlannerOptions& options, const Kind& kind,
                       Trace (*step)(std::uint32_t layers, std::uint64_t seed), std::uint32_t layers = 500) {
  PolicyGroup group{kind.name, kind.title, {}, {}, {}};
  for (std::uint64_t seed = 0; seed < (options.quick ? 1 : made_up_steps); ++seed) {
    Trace trace = step(layers, seed);
    Machine machine = machine_for(trace, kind.share);
    group.cases.push_back({fmt::format("made up {}", seed), std::move(trace), std::move(machine)});
  }
  return group;
}

PolicyGroup made_up(const PlannerOptions& options, const Kind& kind) {
  return made_up_by(options, kind, training_step);
}

PolicyGroup variants(const PlannerOptions& options, const Kind& kind) {
  return made_up_by(options, kind, training_step_with_variants);
}

// Weights count here: each has three times its bytes of gradient and states. The CPU's speed is that of
// a100-g10.
PolicyGroup adam(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = made_up_by(options, kind, training_step_with_adam);
  const double cpu = planner::built_in_machine("a100-g10")->tiers[1].update_bytes_per_second;
  for (PolicyCase& c : group.cases) c.machine.tiers[1].update_bytes_per_second = cpu;
  return group;
}

// FlashNeuron's shape: GPU and SSD alone, and a codec for zeros at 100 GB/s. What is encoded may also rest in
// the GPU's memory.
void encode(Machine* machine) {
  machine->tiers.erase(machine->tiers.begin() + 1);
  planner::Tier encoded;
  encoded.name = "gpu, encoded";
  encoded.inside = true;
  machine->tiers.push_back(encoded);
  machine->links.push_back({"memory", a100_memory, a100_memory, 0, 0});
  machine->routes = {{1, {0, 1}}, {2, {2}}};
  machine->codecs = {{"zeros", 100e9, 100e9, 1, true, 1 / 32.}};
}

// Every other activation is half zeros.
PolicyGroup sparse(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = made_up(options, kind);
  for (PolicyCase& c : group.cases) {
    bool zeros = false;
    for (wire::TraceTensor& tensor : c.trace.tensors)
      if (tensor.kind == wire::TensorKind::activation && (zeros = !zeros)) tensor.sparsity = 0.5;
    encode(&c.machine);
  }
  return group;
}

// What ReLU gives is half zeros.
PolicyGroup relus(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = made_up_by(options, kind, training_step_with_relus, 200);
  for (PolicyCase& c : group.cases) encode(&c.machine);
  return group;
}

PolicyGroup relus_as_bits(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = relus(options, kind);
  planner::CodecCost bits;
  bits.name = "bits";
  bits.compress_bytes_per_second = 100e9;
  bits.one_bit = true;
  for (PolicyCase& c : group.cases) c.machine.codecs.push_back(bits);
  return group;
}

// The codec in the copy engine, as cDMA has it.
PolicyGroup sparse_overlapped(const PlannerOptions& options, const Kind& kind) {
  PolicyGroup group = sparse(options, kind);
  for (PolicyCase& c : group.cases) c.machine.codecs[0].overlaps = true;
  return group;
}

constexpr Kind kinds[] = {
    {"g10-a100-g10", "G10's five steps on a100-g10: 40 GiB, 128 GiB of host memory, an SSD", g10, 0,
     "a100-g10"},
    {"g10-a100-ssd", "G10's five steps on a100-ssd: 40 GiB and an SSD", g10, 0, "a100-ssd"},
    {"dtr-80", "DTR's eight steps in 80% of their peak, 15.75 GB/s to DRAM", dtr, gpu_shares[0]},
    {"dtr-60", "DTR's eight steps in 60%", dtr, gpu_shares[1]},
    {"dtr-40", "DTR's eight steps in 40%", dtr, gpu_shares[2]},
    {"made-up-60", "Three made-up steps of 1,000 operations in 60%", made_up, gpu_shares[1]},
    {"sparse-60", "The same with an SSD alone, half of the activations half zeros, a codec", sparse,
     gpu_shares[1]},
    {"overlapped-60", "The same with a codec that overlaps computing", sparse_overlapped, gpu_shares[1]},
    {"relu-60", "Three made-up steps with ReLU and pooling, an SSD alone, a codec for zeros, in 60%", relus,
     gpu_shares[1], nullptr, 1, true},
    {"relu-bits-60", "The same with a codec for one bit a value", relus_as_bits, gpu_shares[1], nullptr, 1,
     true},
    {"adam-100", "The three with Adam's states and update, all of it fits", adam, 1},
    {"adam-80", "The same in 80%", adam, gpu_shares[0]},
    {"adam-60", "The same in 60%", adam, gpu_shares[1]},
    {"variants-80", "The three with variants of each operation, in 80%", variants, gpu_shares[0]},
    {"variants-60", "The same in 60%", variants, gpu_shares[1]},
    {"recompute-80", "Recomputation alone: DTR's eight steps in 80% of their peak", dtr, gpu_shares[0]},
    {"recompute-60", "Recomputation alone: DTR's eight steps in 60%", dtr, gpu_shares[1]},
    {"recompute-40", "Recomputation alone: DTR's eight steps in 40%", dtr, gpu_shares[2]},
    {"g10-a100-g10-half", "G10's five steps scaled to half the batch, not measured, on a100-g10", g10_scaled,
     0, "a100-g10", 0.5, true},
    {"g10-a100-g10-double", "The same scaled to twice the batch", g10_scaled, 0, "a100-g10", 2, true},
    {"g10-a100-ssd-half", "G10's five steps scaled to half the batch, not measured, on a100-ssd", g10_scaled,
     0, "a100-ssd", 0.5, true},
    {"g10-a100-ssd-double", "The same scaled to twice the batch", g10_scaled, 0, "a100-ssd", 2, true},
    {"g10-a100-g10-placed", "G10's five steps on a100-g10, memory without pages: a plan needs addresses",
     g10_placed, 0, "a100-g10", 1, true},
    {"g10-a100-ssd-placed", "The same on a100-ssd", g10_placed, 0, "a100-ssd", 1, true},
    {"g10-host16", "G10's five steps on a100-g10 with 16 GiB of host memory", g10_little_host, 0, "a100-g10",
     1, true},
    {"g10-host16-joined", "The same with a far route between host memory and the SSD", g10_joined, 0,
     "a100-g10", 1, true}};

}  // namespace

std::vector<std::string> policy_group_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  return names;
}

bool is_by_name(const std::string& group) {
  return std::any_of(std::begin(kinds), std::end(kinds),
                     [&](const Kind& k) { return group == k.name && k.by_name; });
}

PolicyGroup policy_group(const PlannerOptions& options, const std::string& name) {
  const auto* kind =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const Kind& k) { return name == k.name; });
  return kind->make(options, *kind);
}

}  // namespace terrace::bench
