#include "liballoc/gpu/heap/frame_ledger.h"

#include <algorithm>
#include <cerrno>

namespace terrace::liballoc::gpu {

using tiers::gpu::Place;

namespace {

enum : std::uint32_t { nothing = 0, device_memory = 1, host_memory = 2 };

}  // namespace

FrameLedger::~FrameLedger() {
  for (Slot s = 0; s < slot_count_; ++s) {
    Slot end = s;
    while (end < slot_count_ && table_[end].state != nothing) ++end;
    if (end != s && device_.unmap(address(s), (end - s) * frame_bytes_) == 0) destroy(s, end);
    s = end;
  }
  for (const Frame& frame : spare_) device_.destroy_frame(frame);
  if (base_ != nullptr) device_.release_address(base_, slot_count_ * frame_bytes_);
}

void FrameLedger::destroy(Slot first, Slot end) {
  for (Slot s = first; s < end; ++s)
    device_.destroy_frame({table_[s].handle, table_[s].state == device_memory ? Place::device : Place::host});
}

int FrameLedger::open(std::uint64_t slots) {
  frame_bytes_ = device_.frame_bytes();
  // Zeroed pages that nobody touches cost nothing: the range is several times the device's memory.
  table_.reset(static_cast<Entry*>(std::calloc(slots, sizeof(Entry))));
  if (table_ == nullptr) return ENOMEM;
  if (const int error = device_.reserve_address(slots * frame_bytes_, &base_); error != 0) return error;
  slot_count_ = slots;
  return 0;
}

Mark FrameLedger::open_mark(Slot slot) {
  if (!clocks_.passed(mark_of(slot))) return mark_of(slot);
  if (other_marks_.empty()) return {};
  const auto others = other_marks_.find(slot);
  if (others == other_marks_.end()) return {};
  std::erase_if(others->second, [this](const Mark& mark) { return clocks_.passed(mark); });
  if (!others->second.empty()) return others->second.front();
  other_marks_.erase(others);
  return {};
}

bool FrameLedger::passed(Slot slot) { return open_mark(slot).owner == nobody; }

bool FrameLedger::movable(Slot slot) {
  return table_[slot].state == device_memory && table_[slot].users == 0 && passed(slot);
}

void FrameLedger::use(Span span) {
  const Slot end = (span.end + frame_bytes_ - 1) / frame_bytes_;
  for (Slot s = span.begin / frame_bytes_; s < end; ++s) ++table_[s].users;
}

void FrameLedger::put_mark(Slot slot, Mark mark) {
  Entry& e = table_[slot];
  if (e.owner != nobody && e.owner != mark.owner && !clocks_.passed(mark_of(slot))) {
    other_marks_[slot].push_back(mark_of(slot));
  }
  e.owner = mark.owner;
  e.sequence = mark.sequence;
}

void FrameLedger::leave(Span span, Mark mark) {
  const Slot end = (span.end + frame_bytes_ - 1) / frame_bytes_;
  for (Slot s = span.begin / frame_bytes_; s < end; ++s) {
    --table_[s].users;
    put_mark(s, mark);
  }
}

int FrameLedger::map(Slot first, std::uint64_t count) {
  batch_.assign(spare_.end() - static_cast<std::ptrdiff_t>(count), spare_.end());
  ++map_calls_;
  if (const int error = device_.map(address(first), batch_); error != 0) return error;
  spare_.resize(spare_.size() - count);
  enter(first, batch_);
  return 0;
}

int FrameLedger::unmap(Slot first, std::uint64_t count) {
  spare_.reserve(spare_.size() + count);
  ++map_calls_;
  if (const int error = device_.unmap(address(first), count * frame_bytes_); error != 0) return error;
  for (Slot s = first; s < first + count; ++s) {
    spare_.push_back({table_[s].handle, Place::device});
    table_[s].state = nothing;
  }
  return 0;
}

void FrameLedger::enter(Slot first, const std::vector<Frame>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    table_[first + i].handle = frames[i].handle;
    table_[first + i].state = frames[i].place == Place::device ? device_memory : host_memory;
  }
}

int FrameLedger::exchange(Slot first, std::vector<Frame>* frames) {
  std::vector<Frame> old;
  for (Slot s = first; s < first + frames->size(); ++s) {
    old.push_back({table_[s].handle, table_[s].state == device_memory ? Place::device : Place::host});
  }
  map_calls_ += 2;
  if (const int error = device_.unmap(address(first), old.size() * frame_bytes_); error != 0) return error;
  if (const int error = device_.map(address(first), *frames); error != 0) {
    // What was mapped a moment ago can be mapped again; a device that refuses even this is lost.
    return device_.map(address(first), old) == 0 ? error : EIO;
  }
  enter(first, *frames);
  *frames = std::move(old);
  return 0;
}

int FrameLedger::drop_host(Slot first, std::uint64_t count) {
  ++map_calls_;
  if (const int error = device_.unmap(address(first), count * frame_bytes_); error != 0) return error;
  for (Slot s = first; s < first + count; ++s) {
    device_.destroy_frame({table_[s].handle, Place::host});
    table_[s].state = nothing;
  }
  return 0;
}

std::vector<FrameLedger::Frame> FrameLedger::take_spare(std::uint64_t count) {
  std::vector<Frame> taken(spare_.end() - static_cast<std::ptrdiff_t>(count), spare_.end());
  spare_.resize(spare_.size() - count);
  return taken;
}

int FrameLedger::create(std::uint64_t count) {
  for (; count > 0; --count) {
    if (held_ >= limit_) return ENOMEM;
    Frame frame;
    if (const int error = device_.create_frame(Place::device, &frame); error != 0) return error;
    spare_.push_back(frame);
    ++held_;
    ++created_;
  }
  return 0;
}

int FrameLedger::destroy_spare(std::uint64_t keep) {
  while (spare_.size() > keep) {
    if (const int error = device_.destroy_frame(spare_.back()); error != 0) return error;
    spare_.pop_back();
    --held_;
  }
  return 0;
}

std::string FrameLedger::check_invariants() const {
  std::uint64_t mapped = 0;
  for (Slot s = 0; s < slot_count_; ++s) mapped += table_[s].state == device_memory ? 1 : 0;
  if (mapped + spare_.size() != held_) return "frames held are not those mapped and spare";
  return held_ > limit_ ? "more frames are held than the limit" : "";
}

}  // namespace terrace::liballoc::gpu
