#include "liballoc/gpu/offload/memory/device_link.h"

#include <algorithm>
#include <utility>

namespace terrace::liballoc::offload {

using tiers::gpu::Way;

DeviceLink::~DeviceLink() {
  if (device_ == nullptr) return;
  if (out_ != nullptr) device_->destroy_stream(out_);
  if (in_ != nullptr) device_->destroy_stream(in_);
  for (const Event event : events_) device_->destroy_event(event);
}

int DeviceLink::create(Stream* stream, std::string* reason) {
  const int error = device_->create_stream(stream);
  if (error != 0) *reason = std::string("the device gave no stream: ") + device_->error_text();
  return error;
}

int DeviceLink::open(std::unique_ptr<tiers::gpu::Device> device, std::string* reason) {
  device_ = std::move(device);
  if (const int error = create(&out_, reason); error != 0) return error;
  return create(&in_, reason);
}

int DeviceLink::take_event(Event* out) {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      *out = events_.back();
      events_.pop_back();
      return 0;
    }
  }
  return device_->create_event(out);
}

void DeviceLink::give_event(Event event) {
  if (event == nullptr) return;
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

int DeviceLink::mark(Stream stream, Event* event) {
  if (*event == nullptr)
    if (const int error = take_event(event); error != 0) return error;
  return device_->record(*event, stream);
}

int DeviceLink::copy_pieces(Stream stream, const Move& move, Way way) {
  for (std::uint64_t done = 0; done < move.bytes;) {
    const std::uint64_t offset = move.offset + done;
    const std::uint64_t piece = std::min(move.bytes - done, move.slab->chunk_end(offset) - offset);
    std::byte* host = move.slab->at({offset, piece});
    std::byte* device = move.device + done;
    const int error = way == Way::to_host ? device_->copy(stream, host, device, piece, way)
                                          : device_->copy(stream, device, host, piece, way);
    if (error != 0) return error;
    done += piece;
  }
  return 0;
}

int DeviceLink::queue(Stream stream, std::initializer_list<Event> after, Event* done,
                      const std::function<int()>& copy) {
  if (*done == nullptr)
    if (const int error = take_event(done); error != 0) return error;
  int error = 0;
  for (const Event event : after)
    if (error == 0 && event != nullptr) error = device_->wait(stream, event);
  if (error == 0) error = copy();
  const int marked = device_->record(*done, stream);
  return error != 0 ? error : marked;
}

int DeviceLink::copy_out(const Move& move, Event after, Event* done) {
  return queue(out_, {after}, done, [&] { return copy_pieces(out_, move, Way::to_host); });
}

int DeviceLink::copy_in(const Move& move, Event after, Event* done) {
  return queue(in_, {after}, done, [&] { return copy_pieces(in_, move, Way::to_device); });
}

int DeviceLink::copy_across(std::byte* to, const std::byte* from, std::uint64_t bytes, Event to_free,
                            Event from_ready, Event* done) {
  return queue(in_, {to_free, from_ready}, done,
               [&] { return device_->copy(in_, to, from, bytes, Way::on_device); });
}

}  // namespace terrace::liballoc::offload
