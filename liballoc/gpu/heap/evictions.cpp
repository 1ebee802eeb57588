// See evictions.h.
#include "liballoc/gpu/heap/evictions.h"

#include <cerrno>

#include "liballoc/gpu/heap/scratch.h"

namespace terrace::liballoc::gpu {

using tiers::gpu::Frame;
using tiers::gpu::Way;

Evictions::~Evictions() {
  if (copy_stream_ != nullptr) device_.destroy_stream(copy_stream_);  // finishes what uses the copies
}

int Evictions::order_copy(Stream stream, const std::vector<Owner>& recorded) {
  if (copy_stream_ == nullptr) {
    if (const int error = device_.create_stream(&copy_stream_); error != 0) return error;
  }
  std::vector<Owner> owners{clocks_.owner(stream)};
  owners.insert(owners.end(), recorded.begin(), recorded.end());
  for (const Owner owner : owners) {
    if (const int error = clocks_.order(copy_stream_, clocks_.mark(owner)); error != 0) return error;
  }
  return 0;
}

std::uint64_t Evictions::leaving_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [offset, evicted] : evicted_)
    if (evicted.state == Evicted::State::leaving) bytes += evicted.asked_bytes;
  return bytes;
}

int Evictions::evict_to_copy(std::uint64_t offset, const Block& block) {
  const Span span = Arenas::span_of(block);
  std::shared_ptr<HostCopy> copy;
  if (const int error = HostCopy::create(device_, span.end - span.begin, &copy); error != 0) return error;
  if (const int error = copy->queue_out(copy_stream_, ledger_.base() + offset); error != 0) {
    abandoned_.push_back(std::move(copy));
    return error;
  }
  const std::uint64_t asked = Arenas::asked_bytes(block);
  evicted_.emplace(offset, Evicted{Evicted::State::leaving, block, asked, std::move(copy)});
  counts_.evicted_bytes += asked;
  ++leaving_;
  poll();
  return 0;
}

// The slots whose frames only this block keeps: all but its border ones, and those if nobody else uses them.
// Nothing while a use that was marked on them before the block has not passed.
std::optional<Evictions::Slots> Evictions::leaving_slots(Span span) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = arenas_.frames_of(span);
  const auto leaves = [this](std::uint64_t s) {
    return ledger_.mapped(s) && ledger_.users(s) == 1 && ledger_.passed(s);
  };
  std::uint64_t first = frames.begin / frame, end = frames.end / frame;
  if (first * frame < span.begin && !leaves(first)) ++first;
  if (first < end && end * frame > span.end && !leaves(end - 1)) --end;
  for (std::uint64_t s = first; s < end; ++s) {
    if (!leaves(s)) return std::nullopt;
  }
  return Slots{first, end - first};
}

// A frame in host memory has room for nobody else: only slots that are wholly the block's.
Evictions::Slots Evictions::inner_slots(Span span) const {
  const std::uint64_t frame = ledger_.frame_bytes();
  const std::uint64_t first = (span.begin + frame - 1) / frame, end = span.end / frame;
  return {first, end > first ? end - first : 0};
}

void Evictions::wait_for_marks(Slots slots) {
  for (std::uint64_t s = slots.first; s < slots.first + slots.count; ++s) {
    for (Mark mark; (mark = ledger_.open_mark(s)).owner != nobody;) {
      ++counts_.host_waits;
      if (clocks_.wait(mark) != 0) return;
    }
  }
}

Evictions::Slots Evictions::host_slots(Span span) const {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = arenas_.frames_of(span);
  Slots slots;
  for (std::uint64_t s = frames.begin / frame; s < frames.end / frame; ++s) {
    if (!ledger_.in_host_memory(s)) continue;
    if (slots.count++ == 0) slots.first = s;
  }
  return slots;
}

// False: not yet.
bool Evictions::take_frames(const Evicted& evicted) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const std::optional<Slots> slots = leaving_slots(Arenas::span_of(evicted.block));
  if (!slots) return false;
  // With no frame of its own, or where the device refuses, the block has left all the same: the copy is good.
  if (slots->count == 0 || ledger_.unmap(slots->first, slots->count) != 0) return true;
  evicted.block.arena->placement.set_mapped(
      evicted.block.piece, {slots->first * frame, (slots->first + slots->count) * frame}, false);
  return true;
}

void Evictions::poll_arriving() {
  for (auto& copy : arriving_) {
    const int state = copy->query();
    if (state == EBUSY) continue;
    if (state != 0 && lost_ == 0) lost_ = state;
    (state == 0 ? draining_ : abandoned_).push_back(std::move(copy));
  }
  std::erase(arriving_, nullptr);
}

void Evictions::poll() {
  poll_arriving();
  std::erase_if(draining_, [](const auto& copy) { return copy->query() != EBUSY; });
  if (leaving_ == 0) return;
  for (auto it = evicted_.begin(); it != evicted_.end();) {
    Evicted& evicted = it->second;
    const int state = evicted.state == Evicted::State::leaving ? evicted.copy->query() : EBUSY;
    if (state == EBUSY || (state == 0 && !take_frames(evicted))) {
      ++it;
      continue;
    }
    --leaving_;
    if (state == 0) {
      evicted.state = Evicted::State::stored;
      ++it;
      continue;
    }
    counts_.evicted_bytes -= evicted.asked_bytes;  // the copy failed: the block never left
    abandoned_.push_back(std::move(evicted.copy));
    it = evicted_.erase(it);
  }
}

bool Evictions::wait_for_one() {
  for (auto& [offset, evicted] : evicted_) {
    if (evicted.state != Evicted::State::leaving) continue;
    const std::uint64_t leaving = leaving_;
    ++counts_.host_waits;
    evicted.copy->wait();  // whatever came of it, it is no longer under way
    wait_for_marks(inner_slots(Arenas::span_of(evicted.block)));
    poll();
    return leaving_ < leaving;
  }
  return false;
}

// All or none.
int Evictions::make_host_frames(std::uint64_t count, std::vector<Frame>* out) {
  std::vector<Frame> frames;
  for (std::uint64_t i = 0; i < count; ++i) {
    Frame frame;
    if (const int error = device_.create_frame(tiers::gpu::Place::host, &frame); error != 0) {
      for (const Frame& f : frames) device_.destroy_frame(f);
      return error;
    }
    frames.push_back(frame);
  }
  *out = std::move(frames);
  return 0;
}

// Copies what is mapped at an offset into frames that are mapped nowhere; the host waits.
int Evictions::copy_to_frames(const std::vector<Frame>& frames, std::uint64_t offset, Way way) {
  Scratch scratch(device_);
  if (const int error = scratch.open(frames); error != 0) return error;
  const std::uint64_t bytes = frames.size() * ledger_.frame_bytes();
  if (const int error = device_.copy(copy_stream_, scratch.data(), ledger_.base() + offset, bytes, way);
      error != 0) {
    return error;
  }
  ++counts_.host_waits;
  const int error = clocks_.wait(clocks_.mark(clocks_.owner(copy_stream_)));
  const int closed = scratch.close();
  return error != 0 ? error : closed;
}

int Evictions::evict_to_host_frames(std::uint64_t offset, const Block& block) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span span = Arenas::span_of(block);
  ++counts_.host_waits;
  if (const int error = clocks_.wait(clocks_.mark(clocks_.owner(copy_stream_))); error != 0) return error;
  const Slots slots = inner_slots(span);
  if (slots.count == 0) return ENOMEM;
  wait_for_marks(slots);
  std::vector<Frame> frames;
  if (const int error = make_host_frames(slots.count, &frames); error != 0) return error;
  int error = copy_to_frames(frames, slots.first * frame, Way::to_host);
  if (error == 0) error = ledger_.exchange(slots.first, &frames);
  if (error != 0) {
    for (const Frame& f : frames) device_.destroy_frame(f);
    return error;
  }
  ledger_.give_spare(frames);
  const std::uint64_t asked = Arenas::asked_bytes(block);
  evicted_.emplace(offset, Evicted{Evicted::State::host_mapped, block, asked, nullptr});
  counts_.evicted_bytes += asked;
  return 0;
}

int Evictions::restore(std::uint64_t offset, Stream stream, const std::vector<Owner>& recorded,
                       std::unique_lock<std::mutex>* lock) {
  if (const int error = bring_back_as_it_is(offset, stream, recorded, lock); error != 0) return error;
  const auto found = evicted_.find(offset);
  counts_.evicted_bytes -= found->second.asked_bytes;
  evicted_.erase(found);
  return 0;
}

// It is gone, perhaps, if this fails.
int Evictions::bring_back_as_it_is(std::uint64_t offset, Stream stream, const std::vector<Owner>& recorded,
                                   std::unique_lock<std::mutex>* lock) {
  const auto found = evicted_.find(offset);
  if (found == evicted_.end()) return EALREADY;
  switch (Evicted& evicted = found->second; evicted.state) {
    case Evicted::State::leaving:
      cancel(&evicted, stream);
      return 0;
    case Evicted::State::stored:
      return restore_from_copy(offset, lock, stream);
    case Evicted::State::arriving:
      return EBUSY;
    case Evicted::State::host_mapped:
      return restore_from_host_frames(evicted, stream, recorded);
  }
  return EINVAL;
}

// Nothing was taken from the block yet. The copy may still read it: the stream's next work, and with it the
// block's free, comes behind that.
void Evictions::cancel(Evicted* evicted, Stream stream) {
  --leaving_;
  if (evicted->copy->order(stream) != 0) {
    ++counts_.host_waits;
    evicted->copy->wait();
  }
  draining_.push_back(std::move(evicted->copy));
}

// The checksum of a large block takes a while: nobody waits for it but the caller. Meanwhile the block may be
// freed, and another one at its address be evicted: the copy tells them apart.
int Evictions::restore_from_copy(std::uint64_t offset, std::unique_lock<std::mutex>* lock, Stream stream) {
  Evicted& stored = evicted_.at(offset);
  stored.state = Evicted::State::arriving;
  const std::shared_ptr<HostCopy> copy = stored.copy;
  lock->unlock();
  const bool intact = copy->intact();
  lock->lock();
  const auto found = evicted_.find(offset);
  if (found == evicted_.end() || found->second.copy != copy) return EINVAL;
  const int error = intact ? bring_back(found->second, stream) : EBADMSG;
  if (error != 0) found->second.state = Evicted::State::stored;
  return error;
}

int Evictions::bring_back(const Evicted& evicted, Stream stream) {
  const Span span = Arenas::span_of(evicted.block);
  if (const int error = find_frames_(arenas_.missing_frames(span)); error != 0) return error;
  if (const int error = arenas_.map_missing(evicted.block); error != 0) return error;
  int error = evicted.copy->queue_back(copy_stream_, ledger_.base() + span.begin);
  if (error == 0 && evicted.copy->order(stream) != 0) {
    ++counts_.host_waits;
    error = evicted.copy->wait();
  }
  if (error != 0)
    end_way_back(evicted.copy, error);
  else
    arriving_.push_back(evicted.copy);
  return error;
}

// What was refused may be under way all the same: a copy whose event could not be recorded. The host waits
// behind it; where that fails as well, it may write to the block at any time, and neither is its source given
// back nor memory given out any more.
void Evictions::end_way_back(const std::shared_ptr<HostCopy>& copy, int error) {
  ++counts_.host_waits;
  if (clocks_.wait(clocks_.mark(clocks_.owner(copy_stream_))) == 0) return;
  abandoned_.push_back(copy);
  if (lost_ == 0) lost_ = error;
}

int Evictions::restore_from_host_frames(const Evicted& evicted, Stream stream,
                                        const std::vector<Owner>& recorded) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Slots slots = host_slots(Arenas::span_of(evicted.block));
  if (const int error = order_copy(stream, recorded); error != 0) return error;
  if (const int error = find_frames_(slots.count); error != 0) return error;
  std::vector<Frame> frames = ledger_.take_spare(slots.count);
  int error = copy_to_frames(frames, slots.first * frame, Way::to_device);
  if (error == 0) error = ledger_.exchange(slots.first, &frames);
  if (error != 0) {
    ledger_.give_spare(frames);
    return error;
  }
  for (const Frame& old : frames) device_.destroy_frame(old);
  return 0;
}

// What still copies the block, or runs on host memory in its place, is waited for: by
// the stream where that is enough.
void Evictions::forget(std::uint64_t offset, Stream stream) {
  const auto found = evicted_.find(offset);
  if (found == evicted_.end()) return;
  Evicted& evicted = found->second;
  if (evicted.state == Evicted::State::leaving) cancel(&evicted, stream);
  if (evicted.state == Evicted::State::host_mapped) {
    const Slots slots = host_slots(Arenas::span_of(evicted.block));
    ++counts_.host_waits;
    clocks_.wait(clocks_.mark(clocks_.owner(stream)));
    ledger_.drop_host(slots.first, slots.count);
  }
  counts_.evicted_bytes -= evicted.asked_bytes;
  evicted_.erase(found);
}

}  // namespace terrace::liballoc::gpu
