// Between host memory and the drive. When a store finds no room, the tensors whose fetch is furthest away are
// written; written, they are clean: their memory is dropped when somebody needs it, and not before. Once a
// step had to wait, writing begins early, so that clean memory is at hand. In the fetching part of a step
// tensors are read ahead in the learned order, into memory that is free, or clean and not itself read ahead.
//
// Whatever the drive refuses stays in host memory.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {
namespace {

constexpr std::size_t most_looked_ahead = 256;  // tensors

}  // namespace

// Whenever something has changed for whoever waits.
void Engine::pump() {
  collect_retired();
  vacate();
  serve_waiting();
  write_as_planned();
  if (waiting_.empty() && pressed_ && !step_.is_fetching()) write_early();
  plan_reads();
  if (wanted_growth() != 0) keeper_.wake();
}

int Engine::write_when_stored(std::uint64_t id) {
  const Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  if (tensor == nullptr) return ENOENT;
  if (drive_ == nullptr) return 0;
  planned_writes_.push_back(tensor);
  pump();
  return 0;
}

// In the order of the plan. What the drive does not take stays in host memory.
void Engine::write_as_planned() {
  while (!planned_writes_.empty()) {
    const TensorPtr& tensor = planned_writes_.front();
    if (!tensor->gone && (tensor->state == Tensor::State::waiting || tensor->state == Tensor::State::leaving))
      return;
    if (!tensor->gone && is_victim(tensor)) start_write(tensor);
    planned_writes_.pop_front();
  }
}

void Engine::write_early() {
  const std::uint64_t at_hand = slab_.limit_bytes() / 8;
  if (slab_.used_bytes() < slab_.limit_bytes() / 4 * 3) return;
  while (clean_bytes_ + writing_bytes_ < at_hand) {
    const TensorPtr victim = next_victim();
    if (victim == nullptr || start_write(victim) != 0) return;
  }
}

// In host memory alone, and not asked for yet.
bool Engine::is_victim(const TensorPtr& tensor) const {
  return tensor != nullptr && tensor->state == Tensor::State::stored && tensor->memory_filled &&
         tensor->disk.bytes == 0 && tensor->to == nullptr;
}

TensorPtr Engine::next_victim() {
  return step_.last_expected([this](const TensorPtr& tensor) { return is_victim(tensor); });
}

// So much of the write budget is the tensor's to write. 0, or what the budget says: all is as it was.
int Engine::charge(Tensor& tensor, std::uint64_t bytes) {
  if (bytes > tensor.charged_bytes) {
    if (const int error = writes_.take(bytes - tensor.charged_bytes); error != 0) return error;
  } else {
    writes_.untake(tensor.charged_bytes - bytes);
  }
  tensor.charged_bytes = bytes;
  return 0;
}

// The drive may have written them, also where it says that it failed.
void Engine::was_submitted(Tensor& tensor, std::uint64_t bytes) {
  const std::uint64_t charged = std::min(bytes, tensor.charged_bytes);
  tensor.charged_bytes -= charged;
  writes_.submitted(charged);
}

// 0 and tensor.disk, or why the drive takes nothing.
int Engine::space_on_drive(Tensor& tensor, std::uint64_t bytes) {
  if (drive_error_ != 0) return drive_error_;
  if (const int error = charge(tensor, whole_blocks(bytes)); error != 0) return error;
  if (const int error = drive_->reserve(bytes, &tensor.disk); error != 0) {
    charge(tensor, 0);
    return error;
  }
  counts_.nvme_peak_bytes = std::max(counts_.nvme_peak_bytes, drive_->used_bytes());
  return 0;
}

int Engine::start_write(const TensorPtr& victim) {
  const std::uint64_t bytes = victim->memory.bytes;
  if (const int error = space_on_drive(*victim, bytes); error != 0) return error;
  victim->drive = Tensor::Drive::writing;
  ++victim->users;
  writing_bytes_ += bytes;
  drive_->queue({.tensor = victim,
                 .direction = tiers::Direction::write,
                 .summed_bytes = victim->proof == Tensor::Proof::none ? victim->stored_bytes : 0,
                 .sum = victim->id,
                 .memory = slab_.at(victim->memory),
                 .extent = victim->disk});
  return 0;
}

void Engine::drive_done(const Drive::Job& job, int error) {
  const std::uint64_t ns = os::now_ns() - job.begun_ns;
  const bool out = job.direction == tiers::Direction::write;
  if (error == 0 && codec_ != nullptr) codec_->moved(HostCodec::Way::drive, out, job.extent.bytes, ns);
  if (error == 0 && device_codec_ != nullptr) device_codec_->crossed_drive(job.extent.bytes, ns);
  if (error == 0 && planner_ != nullptr)
    planner_->transferred(out ? StepPlanner::Way::drive_out : StepPlanner::Way::drive_in, job.extent.bytes,
                          job.begun_ns, os::now_ns());
  const Lock lock(mutex_);
  if (job.is_part) {
    part_done(job, error);
    return;
  }
  job.tensor->drive = Tensor::Drive::idle;
  if (error != 0) ++counts_.io_errors;
  if (out)
    written(job, error);
  else
    was_read(job.tensor, error);
  end_use(*job.tensor);
  changed_.notify_all();
  pump();
}

void Engine::written(const Drive::Job& job, int error) {
  const TensorPtr& tensor = job.tensor;
  writing_bytes_ -= tensor->disk.bytes;
  was_submitted(*tensor, job.submitted_bytes);
  if (error != 0) {
    drive_error_ = error;
    charge(*tensor, 0);
    drive_->release(std::exchange(tensor->disk, {}));
    return;
  }
  counts_.nvme_written_bytes += tensor->disk.bytes;
  if (job.summed_bytes != 0) {
    tensor->sum = job.sum;
    tensor->proof = Tensor::Proof::sum;
    proofs_.count(job.summed_bytes);
  }
  tensor->disk_filled = true;
  now_clean(tensor);
}

// One that was only read ahead is tried again when it is asked for; one with a direct way takes that.
void Engine::was_read(const TensorPtr& tensor, int error) {
  const bool awaited = tensor->arrival == Tensor::Arrival::awaiting;
  if (error == 0) {
    counts_.nvme_read_bytes += tensor->disk.bytes;
    tensor->memory_filled = tensor->from_drive = true;
    now_clean(tensor);
    if (!awaited || tensor->gone) return;
    tensor->arrival = Tensor::Arrival::queued;
    in_crew_.queue(tensor);
    return;
  }
  give_up_read(*tensor);
  tensor->read_failed = true;
  if (!awaited) return;
  if (tensor->direct && !tensor->gone) {
    tensor->arrival = Tensor::Arrival::queued;
    in_crew_.queue(tensor);
    return;
  }
  tensor->arrival = Tensor::Arrival::failed;
  tensor->arrival_error = error;
}

void Engine::give_up_read(Tensor& tensor) {
  was_asked_for(tensor);
  slab_.release(std::exchange(tensor.memory, {}));
}

void Engine::now_clean(const TensorPtr& tensor) {
  tensor->clean = true;
  clean_bytes_ += tensor->memory.bytes;
  clean_.push_back(tensor);
}

void Engine::not_clean(Tensor& tensor) {
  if (!std::exchange(tensor.clean, false)) return;
  clean_bytes_ -= tensor.memory.bytes;
}

// No longer what was read ahead for nothing.
void Engine::was_asked_for(Tensor& tensor) {
  if (!std::exchange(tensor.read_ahead, false)) return;
  read_ahead_bytes_ -= tensor.disk.bytes;
  if (!tensor.gone && tensor.to != nullptr) ++counts_.read_ahead_hits;
}

// Nobody uses it, and it can be brought back through the window.
bool Engine::is_droppable(const Tensor& tensor, bool even_read_ahead) {
  if (tensor.users != 0 || is_moving(tensor) || is_pending(tensor.arrived)) return false;
  if (window_busy_ && window_for(tensor) > window_.bytes()) return false;
  return even_read_ahead || !tensor.read_ahead;
}

bool Engine::drop_clean(bool even_read_ahead) {
  std::erase_if(clean_, [](const TensorPtr& tensor) { return !tensor->clean; });
  for (const TensorPtr& tensor : clean_) {
    if (!is_droppable(*tensor, even_read_ahead)) continue;
    drop(*tensor);
    return true;
  }
  return false;
}

// Its memory is free for others, or becomes the window if that is too small to bring it back.
void Engine::drop(Tensor& tensor) {
  not_clean(tensor);
  if (tensor.read_ahead) {
    ++counts_.read_ahead_wasted;
    tensor.read_ahead = false;
    read_ahead_bytes_ -= tensor.disk.bytes;
  }
  tensor.memory_filled = false;
  const std::uint64_t window_bytes = window_for(tensor);
  tiers::Extent memory = std::exchange(tensor.memory, {});
  if (window_bytes > window_.bytes()) {
    slab_.shrink(&memory, window_bytes);
    window_.hold(memory);
  } else {
    slab_.release(memory);
  }
}

bool Engine::room_to_read(const TensorPtr& tensor, bool urgent) {
  const std::uint64_t bytes = tensor->disk.bytes;
  do {
    if (slab_.reserve(bytes, &tensor->memory) == 0) return true;
  } while (keeper_.grow_now(bytes) || drop_clean(urgent));
  return false;
}

bool Engine::start_read(const TensorPtr& tensor, bool urgent) {
  if (!room_to_read(tensor, urgent)) return false;
  tensor->drive = Tensor::Drive::reading;
  ++tensor->users;
  drive_->queue({.tensor = tensor,
                 .direction = tiers::Direction::read,
                 .urgent = urgent,
                 .memory = slab_.at(tensor->memory),
                 .extent = tensor->disk});
  return true;
}

// A direct one into host memory as well: before it is fetched there is no place for it on the device but the
// staging, whose pieces are those of transfers under way. One that host memory never holds is passed over.
bool Engine::may_be_read_ahead(const Tensor& tensor) const {
  if (tensor.state != Tensor::State::stored || !tensor.disk_filled || tensor.memory_filled) return false;
  if (tensor.to != nullptr || tensor.drive != Tensor::Drive::idle || tensor.read_failed) return false;
  return !tensor.in_pieces || (tensor.direct && tensor.disk.bytes <= read_ahead_limit_bytes_);
}

void Engine::plan_reads() {
  if (drive_ == nullptr || !waiting_.empty()) return;
  step_.look_ahead(most_looked_ahead, [this](const TensorPtr& tensor) {
    if (!may_be_read_ahead(*tensor)) return true;
    if (read_ahead_bytes_ + tensor->disk.bytes > read_ahead_limit_bytes_ || !start_read(tensor, false))
      return false;
    tensor->read_ahead = true;
    read_ahead_bytes_ += tensor->disk.bytes;
    return true;
  });
}

// A drive that was full has room again.
void Engine::end_drives_step() {
  if (drive_error_ == ENOSPC) drive_error_ = 0;
  pressed_ = std::exchange(waited_, false);
  std::erase_if(clean_, [](const TensorPtr& tensor) { return !tensor->clean; });
  give_up_window();
}

// What others have stored meanwhile keeps it.
void Engine::give_up_window() {
  const bool needed = std::any_of(live_.begin(), live_.end(), [](const auto& entry) {
    return entry.second->in_pieces || (entry.second->disk_filled && !entry.second->memory_filled);
  });
  if (!needed && !window_busy_) window_.give_up();
}

}  // namespace terrace::liballoc::offload
