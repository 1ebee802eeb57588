#include "liballoc/gpu/offload/engine/drive_traffic.h"

#include <utility>

namespace terrace::liballoc::offload {
namespace {

constexpr std::size_t most_looked_ahead = 256;  // tensors

}  // namespace

int DriveTraffic::make_room(std::uint64_t bytes) {
  if (!drive_->is_open()) return 0;
  int refusal = 0;
  while (writing_bytes_ < bytes && refusal == 0) {
    const TensorPtr victim = next_victim();
    if (victim == nullptr) break;
    refusal = start_write(victim);
  }
  return refusal;
}

void DriveTraffic::write_as_planned() {
  while (!planned_writes_.empty()) {
    const TensorPtr& tensor = planned_writes_.front();
    if (!tensor->gone && tensor->state < Tensor::State::stored) return;
    if (!tensor->gone && tensor->may_be_written()) start_write(tensor);
    planned_writes_.pop_front();
  }
}

void DriveTraffic::write_early() {
  const Slab& slab = host_->slab();
  if (slab.used_bytes() < slab.limit_bytes() / 4 * 3) return;
  while (host_->clean_bytes() + writing_bytes_ < slab.limit_bytes() / 8) {
    const TensorPtr victim = next_victim();
    if (victim == nullptr || start_write(victim) != 0) return;
  }
}

TensorPtr DriveTraffic::next_victim() {
  return common_->step.last_expected(
      [](const TensorPtr& tensor) { return tensor != nullptr && tensor->may_be_written(); });
}

int DriveTraffic::start_write(const TensorPtr& victim) {
  const std::uint64_t bytes = victim->memory.bytes;
  if (const int error = drive_->reserve(*victim, bytes); error != 0) return error;
  victim->drive = Tensor::Drive::writing;
  ++victim->users;
  writing_bytes_ += bytes;
  drive_->drive().queue({.tensor = victim,
                         .direction = tiers::Direction::write,
                         .summed_bytes = victim->proof == Tensor::Proof::none ? victim->stored_bytes : 0,
                         .sum = victim->id,
                         .memory = host_->at(*victim),
                         .extent = victim->disk});
  return 0;
}

void DriveTraffic::done(const Drive::Job& job, int error) {
  drive_->ended(job, error);
  if (job.direction == tiers::Direction::write)
    written(job, error);
  else
    was_read(job.tensor, error);
  uses_->end(*job.tensor);
  common_->changed.notify_all();
  common_->stir();
}

void DriveTraffic::written(const Drive::Job& job, int error) {
  const TensorPtr& tensor = job.tensor;
  writing_bytes_ -= tensor->disk.bytes;
  if (error != 0) return drive_->release(*tensor);
  if (job.summed_bytes != 0) {
    tensor->sum = job.sum;
    tensor->proof = Tensor::Proof::sum;
    common_->proofs.count(job.summed_bytes);
  }
  tensor->disk_filled = true;
  host_->now_clean(tensor);
}

// One that was only read ahead is tried again when it is asked for; one with a direct way takes that.
void DriveTraffic::was_read(const TensorPtr& tensor, int error) {
  const bool is_awaited = tensor->arrival == Tensor::Arrival::awaiting;
  if (error == 0) {
    tensor->memory_filled = tensor->from_drive = true;
    host_->now_clean(tensor);
  } else {
    host_->was_asked_for(*tensor);
    host_->slab().release(std::exchange(tensor->memory, {}));
    tensor->read_failed = true;
  }
  if (!is_awaited) return;
  if (error != 0 && (!tensor->direct || tensor->gone)) {
    tensor->arrival = Tensor::Arrival::failed;
    tensor->arrival_error = error;
  } else if (!tensor->gone) {
    tensor->arrival = Tensor::Arrival::queued;
    common_->executor.queue(Stage::in, tensor);
  }
}

bool DriveTraffic::start_read(const TensorPtr& tensor, bool urgent) {
  if (!host_->reserve_to_read(*tensor, urgent)) return false;
  tensor->drive = Tensor::Drive::reading;
  ++tensor->users;
  drive_->drive().queue({.tensor = tensor,
                         .direction = tiers::Direction::read,
                         .urgent = urgent,
                         .memory = host_->at(*tensor),
                         .extent = tensor->disk});
  return true;
}

// A direct one into host memory as well: before it is fetched there is no place for it on the device but the
// staging, whose pieces are those of transfers under way. One that host memory never holds is passed over.
bool DriveTraffic::may_be_read_ahead(const Tensor& tensor) const {
  if (tensor.state != Tensor::State::stored || !tensor.disk_filled || tensor.memory_filled) return false;
  if (tensor.to != nullptr || tensor.drive != Tensor::Drive::idle || tensor.read_failed) return false;
  return !tensor.in_pieces || (tensor.direct && tensor.disk.bytes <= host_->read_ahead_limit_bytes());
}

void DriveTraffic::read_ahead() {
  if (!drive_->is_open() || host_->awaited_bytes() != 0) return;
  common_->step.look_ahead(most_looked_ahead, [this](const TensorPtr& tensor) {
    if (!may_be_read_ahead(*tensor)) return true;
    if (!host_->may_read_ahead(tensor->disk.bytes) || !start_read(tensor, false)) return false;
    host_->begin_read_ahead(*tensor);
    return true;
  });
}

void DriveTraffic::vacate() {
  Slab& slab = host_->slab();
  if (!slab.is_over_limit()) return;
  for (const auto& [id, tensor] : common_->live)
    if (slab.is_beyond_limit(tensor->memory) && !vacate(tensor)) break;
  if (!host_->window().is_busy()) vacate_window();
  host_->keeper().give_back_surplus();
}

// False: the drive takes no more.
bool DriveTraffic::vacate(const TensorPtr& tensor) {
  host_->drop_if_clean(*tensor);
  return !tensor->may_be_written() || !drive_->is_open() || start_write(tensor) == 0;
}

// Others make room for it, once they are on the drive. Where nobody can, it has to be without memory itself.
void DriveTraffic::vacate_window() {
  HeldExtent& held = host_->window().held();
  bool moved = false;
  while (!(moved = held.move_below_limit()) && host_->drop_clean(true)) {
  }
  if (moved || writing_bytes_ != 0) return;
  make_room(held.bytes());
  if (writing_bytes_ == 0) held.withhold();
}

}  // namespace terrace::liballoc::offload
