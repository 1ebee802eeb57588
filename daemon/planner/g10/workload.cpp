// The checks that make a trace fit for the simulator; see workload.h.
#include "daemon/planner/g10/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace terrace::planner::g10 {
namespace {

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
constexpr double most_cycles = 9e15;  // of the whole trace: about 87 days at 1.2 GHz, and exact in a double

std::string check_machine(const G10Machine& machine) {
  const auto rate = [](double value) { return std::isfinite(value) && value > 0 && value < 1e6; };
  const auto time = [](double value) { return std::isfinite(value) && value >= 0 && value < 1e6; };
  if (machine.page_bytes == 0 || machine.pages_per_tick == 0 || machine.gpu_bytes < machine.page_bytes) {
    return "the G10 machine needs a page size, a number of pages per tick and a GPU that holds at least one "
           "page";
  }
  if (!rate(machine.link_gb_per_second) || !rate(machine.ssd_gb_per_second) || !rate(machine.gpu_ghz)) {
    return "the G10 machine's rates (link, SSD, clock) have to be positive";
  }
  if (machine.ssd_gb_per_second * machine.pages_per_tick < machine.link_gb_per_second) {
    return "the G10 machine's SSD moves less than a page per tick: take more pages per tick";
  }
  if (machine.ssd_gb_per_second > machine.link_gb_per_second) {
    return "the G10 machine's SSD lies behind the link and cannot be faster";
  }
  if (!time(machine.malloc_us_per_byte) || !time(machine.ssd_latency_us) ||
      !time(machine.system_latency_us) || !time(machine.plan_margin) || !rate(machine.plan_loosening)) {
    return "the G10 machine's latencies and plan parameters have to be finite and not negative";
  }
  return {};
}

class Reader {
 public:
  Reader(const wire::Trace& trace, const G10Machine& machine) : trace_(trace), machine_(machine) {}

  std::string read(std::span<const G10FaultTimes> fault_times);
  Workload take() { return std::move(workload_); }

 private:
  std::string add_tensor(std::uint64_t bytes, bool global, const std::string& name);
  std::string add_tensors();
  std::string add_kernel(std::uint32_t op);
  std::string add_workspaces();
  std::string check_fit() const;
  std::string apply(const G10FaultTimes& times);
  void need(Kernel& kernel, std::uint32_t tensor, std::uint32_t op);
  void set_lives();
  std::string op_name(std::uint32_t op) const {
    return "operation " + std::to_string(op) + " (" + trace_.ops[op].name + ")";
  }

  const wire::Trace& trace_;
  const G10Machine& machine_;
  Workload workload_;
  std::vector<std::uint32_t> seen_;  // by tensor: the last operation that listed it
};

std::string Reader::add_tensor(std::uint64_t bytes, bool global, const std::string& name) {
  const std::uint64_t pages = bytes / machine_.page_bytes + (bytes % machine_.page_bytes != 0 ? 1 : 0);
  if (pages >= never) {
    return name + " has " + std::to_string(bytes) +
           " bytes, which are more pages than the G10 simulator can count";
  }
  Tensor tensor;
  tensor.pages = static_cast<std::uint32_t>(pages);
  tensor.bytes = pages * machine_.page_bytes;
  tensor.global = global;
  tensor.birth = never;
  workload_.tensors.push_back(tensor);
  return {};
}

std::string Reader::add_tensors() {
  for (const wire::TraceTensor& tensor : trace_.tensors) {
    std::string problem = add_tensor(tensor.bytes, tensor.persistent, "tensor " + std::to_string(tensor.id));
    if (!problem.empty()) return problem;
  }
  return {};
}

void Reader::need(Kernel& kernel, std::uint32_t tensor, std::uint32_t op) {
  if (seen_[tensor] == op) return;
  seen_[tensor] = op;
  kernel.needs.push_back(tensor);
  if (workload_.tensors[tensor].birth == never) workload_.tensors[tensor].birth = op;
}

std::string Reader::add_kernel(std::uint32_t op) {
  const wire::TraceOp& source = trace_.ops[op];
  const double cycles = std::round(source.time_us * machine_.gpu_ghz * 1000);
  if (!(cycles >= 1) || cycles > most_cycles - static_cast<double>(workload_.ideal_cycles)) {
    return op_name(op) + " takes " + std::to_string(source.time_us) +
           " us: the G10 simulator needs at least one cycle for each operation, and at most 87 days for all";
  }
  Kernel kernel;
  kernel.cycles = static_cast<std::uint64_t>(cycles);
  kernel.execution_seconds = static_cast<std::uint32_t>(cycles / (machine_.gpu_ghz * 1e9));
  kernel.all_seconds = kernel.input_seconds = kernel.execution_seconds;
  for (const std::uint32_t tensor : source.inputs) {
    if (tensor >= trace_.tensors.size()) return op_name(op) + " names a tensor that the trace lacks";
    need(kernel, tensor, op);
  }
  kernel.inputs = static_cast<std::uint32_t>(kernel.needs.size());
  for (std::size_t i = source.outputs.size(); i-- > 0;) {
    if (source.outputs[i] >= trace_.tensors.size())
      return op_name(op) + " names a tensor that the trace lacks";
    need(kernel, source.outputs[i], op);
  }
  workload_.ideal_cycles += kernel.cycles;
  workload_.kernels.push_back(std::move(kernel));
  return {};
}

std::string Reader::add_workspaces() {
  for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
    if (trace_.ops[op].workspace_bytes == 0) continue;
    std::string problem =
        add_tensor(trace_.ops[op].workspace_bytes, false, "the workspace of " + op_name(op));
    if (!problem.empty()) return problem;
    workload_.tensors.back().birth = op;
    Kernel& kernel = workload_.kernels[op];
    kernel.needs.insert(kernel.needs.begin() + kernel.inputs,
                        static_cast<std::uint32_t>(workload_.tensors.size() - 1));
  }
  return {};
}

// A tensor dies after its last read; one that nobody reads lives for the operation of its birth.
void Reader::set_lives() {
  for (Tensor& tensor : workload_.tensors) tensor.death = tensor.birth == never ? 0 : tensor.birth + 1;
  for (std::uint32_t op = 0; op < workload_.kernels.size(); ++op) {
    const Kernel& kernel = workload_.kernels[op];
    for (std::uint32_t i = 0; i < kernel.inputs; ++i) workload_.tensors[kernel.needs[i]].death = op + 1;
  }
}

std::string Reader::check_fit() const {
  const std::uint64_t gpu_pages = machine_.gpu_bytes / machine_.page_bytes;
  std::uint64_t all = 0;
  for (const Tensor& tensor : workload_.tensors) all += tensor.pages;
  if (all >= never)
    return "the trace's tensors together have more pages than the G10 simulator can count (2^32)";
  for (std::uint32_t op = 0; op < workload_.kernels.size(); ++op) {
    std::uint64_t pages = 0;
    for (const std::uint32_t tensor : workload_.kernels[op].needs) pages += workload_.tensors[tensor].pages;
    if (pages > gpu_pages) {
      return op_name(op) + " needs " + std::to_string(pages) + " pages and the GPU holds " +
             std::to_string(gpu_pages);
    }
  }
  return {};
}

std::string Reader::apply(const G10FaultTimes& times) {
  if (times.op >= workload_.kernels.size()) {
    return "fault times name operation " + std::to_string(times.op) + " and the trace has " +
           std::to_string(workload_.kernels.size());
  }
  Kernel& kernel = workload_.kernels[times.op];
  kernel.input_seconds = std::max(times.input_seconds, kernel.execution_seconds);
  kernel.all_seconds = std::max(times.all_seconds, kernel.input_seconds);
  return {};
}

std::string Reader::read(std::span<const G10FaultTimes> fault_times) {
  if (trace_.ops.size() < 2 || trace_.ops.size() >= never || trace_.tensors.empty()) {
    return "the G10 simulator needs a trace of at least two operations and one tensor";
  }
  seen_.assign(trace_.tensors.size(), never);
  std::string problem = add_tensors();
  for (std::uint32_t op = 0; problem.empty() && op < trace_.ops.size(); ++op) problem = add_kernel(op);
  if (problem.empty()) problem = add_workspaces();
  if (problem.empty()) problem = check_fit();
  for (const G10FaultTimes& times : fault_times) {
    if (problem.empty()) problem = apply(times);
  }
  set_lives();
  return problem;
}

}  // namespace

Result<Workload> make_workload(const wire::Trace& trace, const G10Machine& machine,
                               std::span<const G10FaultTimes> fault_times) {
  std::string problem = check_machine(machine);
  if (!problem.empty()) return refused<Workload>(std::move(problem));
  Reader reader(trace, machine);
  problem = reader.read(fault_times);
  if (!problem.empty()) return refused<Workload>(std::move(problem));
  return ok(reader.take());
}

}  // namespace terrace::planner::g10
