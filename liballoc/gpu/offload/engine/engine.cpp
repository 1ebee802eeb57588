#include "liballoc/gpu/offload/engine/engine.h"

#include <cerrno>
#include <utility>

#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {
namespace {

bool is_valid(const terrace_offload_tensor& tensor) {
  return tensor.size >= sizeof(tensor) && tensor.data != nullptr && tensor.bytes != 0 &&
         tensor.element >= 0 && tensor.element < compression::element_type_count;
}

void add_plan(const StepPlanner::Counts& plan, terrace_offload_statistics* counts) {
  counts->plan_in_force = static_cast<std::uint64_t>(plan.is_in_force);
  counts->plans_made = plan.plans;
  counts->planned_steps = plan.planned_steps;
  counts->plan_departures = plan.departures;
  counts->plan_refusals = plan.refusals;
  counts->plan_predicted_ns = plan.predicted_step_ns;
  counts->plan_step_ns = plan.planned_step_ns;
  counts->heuristic_step_ns = plan.heuristic_step_ns;
  counts->plan_wait_ns = plan.planned_wait_ns;
  counts->heuristic_wait_ns = plan.heuristic_wait_ns;
}

}  // namespace

int Engine::store(const terrace_offload_tensor& from, void* stream, std::uint64_t* id, bool* left) {
  if (!is_valid(from) || id == nullptr || !common_.takes(stream)) return EINVAL;
  return stores_.store(from, static_cast<Stream>(stream), id, left);
}

template <typename Function>
int Engine::with(std::uint64_t id, void* stream, const Function& function) {
  if (!common_.takes(stream)) return EINVAL;
  Lock lock(common_.mutex);
  const TensorPtr tensor = common_.find(id);
  return tensor == nullptr ? ENOENT : function(tensor, lock);
}

int Engine::left(std::uint64_t id, bool* out) {
  return with(id, nullptr, [&](const TensorPtr& tensor, Lock&) { return stores_.left(*tensor, out); });
}

int Engine::leave(std::uint64_t id, void* stream, bool* out) {
  return with(id, stream, [&](const TensorPtr& tensor, Lock& lock) {
    return stores_.leave(*tensor, static_cast<Stream>(stream), out, lock);
  });
}

int Engine::fetch(std::uint64_t id, void* to, void* stream) {
  if (to == nullptr) return EINVAL;
  return with(id, stream, [&](const TensorPtr& tensor, Lock& lock) {
    return fetches_.fetch(tensor, to, static_cast<Stream>(stream), lock);
  });
}

int Engine::fetch_arrive(std::uint64_t id, void* to, void* stream) {
  if (to == nullptr) return EINVAL;
  return with(id, stream, [&](const TensorPtr& tensor, Lock& lock) {
    return fetches_.fetch_arrive(tensor, to, static_cast<Stream>(stream), lock);
  });
}

int Engine::arrive(std::uint64_t id, void* stream) {
  return with(id, stream, [&](const TensorPtr& tensor, Lock& lock) {
    return fetches_.arrive(tensor, static_cast<Stream>(stream), lock);
  });
}

int Engine::release(std::uint64_t id, void* stream) {
  return with(id, stream, [&](const TensorPtr& tensor, Lock& lock) {
    common_.live.erase(id);
    common_.step.leave(*tensor);
    return uses_.release(*tensor, static_cast<Stream>(stream), lock);
  });
}

int Engine::next_step() {
  const Lock lock(common_.mutex);
  common_.step.end_step();
  for (const auto& [id, tensor] : common_.live) common_.step.stay(tensor);
  end_memorys_step();
  return 0;
}

int Engine::end_step() {
  Lock lock(common_.mutex);
  const auto left_over = std::exchange(common_.live, {});
  common_.step.end_step();
  common_.counts.dropped += left_over.size();
  for (const auto& [id, tensor] : left_over) uses_.forget(*tensor);
  for (const auto& [id, tensor] : left_over) uses_.see_off(*tensor, lock);
  end_memorys_step();
  return 0;
}

void Engine::end_memorys_step() {
  drive_.end_step();
  host_.end_step();
  stir();
}

std::size_t Engine::expect(std::uint64_t id, std::uint64_t* out, std::size_t count) {
  const Lock lock(common_.mutex);
  return common_.step.expect(id, out, count);
}

int Engine::write_when_stored(std::uint64_t id) {
  const Lock lock(common_.mutex);
  const TensorPtr tensor = common_.find(id);
  if (tensor == nullptr) return ENOENT;
  if (!drive_.is_open()) return 0;
  traffic_.write_when_stored(tensor);
  stir();
  return 0;
}

void Engine::stir() {
  host_.collect_retired();
  traffic_.vacate();
  stores_.serve_waiting();
  traffic_.write_as_planned();
  if (host_.awaited_bytes() == 0 && host_.is_pressed() && !common_.step.is_fetching()) traffic_.write_early();
  traffic_.read_ahead();
  if (stores_.wanted_growth() != 0) host_.keeper().wake();
}

void Engine::drive_done(const Drive::Job& job, int error) {
  const std::uint64_t now_ns = os::now_ns();
  const bool out = job.direction == tiers::Direction::write;
  if (error == 0) copies_.crossed_drive(out, job.extent.bytes, now_ns - job.begun_ns);
  if (error == 0) frames_.crossed_drive(job.extent.bytes, now_ns - job.begun_ns);
  if (error == 0 && planner() != nullptr)
    planner()->transferred(out ? StepPlanner::Way::drive_out : StepPlanner::Way::drive_in, job.extent.bytes,
                           job.begun_ns, now_ns);
  const Lock lock(common_.mutex);
  if (job.is_part)
    windowed_.done(job, error);
  else
    traffic_.done(job, error);
}

terrace_offload_statistics Engine::statistics() {
  const Lock lock(common_.mutex);
  terrace_offload_statistics counts = common_.counts;
  counts.size = sizeof(counts);
  counts.live = common_.live.size();
  counts.waiting_bytes = host_.awaited_bytes();
  counts.summed_bytes = common_.proofs.summed_bytes();
  counts.dram_bytes = host_.slab().committed_bytes();
  counts.dram_peak_bytes = host_.slab().committed_peak_bytes();
  counts.dram_limit_bytes = host_.slab().limit_bytes();
  counts.writes_today_bytes = drive_.writes().today_bytes();
  counts.writes_total_bytes = drive_.writes().total_bytes();
  counts.nvme_bytes = drive_.used_bytes();
  for (const auto& [id, tensor] : common_.live)
    if (tensor->memory.bytes != 0) counts.dram_content_bytes += tensor->stored_bytes;
  if (planner() != nullptr) add_plan(planner()->counts(), &counts);
  return counts;
}

StepRecorder::Moment Engine::moment() {
  const Lock lock(common_.mutex);
  return {os::now_ns(), common_.counts.host_wait_ns};
}

std::string Engine::plan_text() const {
  if (planner() != nullptr) return planner()->text();
  if (policy_ == "heuristic") return policy_;
  return common_.on_host()
             ? "heuristic: steps on CPU tensors are not planned"
             : "heuristic: steps of a CUDA device are not planned yet, as its own times are not read";
}

}  // namespace terrace::liballoc::offload
