#include "liballoc/gpu/offload/codec/host_codec.h"

#include <algorithm>
#include <utility>

#include "compression/frame.h"
#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/codec/frame_rules.h"

namespace terrace::liballoc::offload {
namespace {

using compression::Codec;

// Each way and size; one alone may have been preempted, or the first to touch its memory.
constexpr std::uint32_t copies_to_time = 3;
constexpr std::uint32_t copied_again_after = 64;  // tensors of a class
constexpr compression::TimePrior usual_copy{500, 0.1};

// The drive's link takes a frame as it takes raw bytes. In memory the codec's own time is all that a frame
// costs, and is no less than copying what it writes would take: the way of a pipeline without end.
compression::Transfer transfer_on(HostCodec::Way way) {
  if (way == HostCodec::Way::drive) return {};
  return {.schedule = compression::Schedule::pipelined, .chunks = UINT32_MAX};
}

}  // namespace

HostCodec::HostCodec(Compress compress, Codec codec) : compress_(compress), codec_(codec) {
  if (compress_ != Compress::automatic) return;
  const compression::AdvisorOptions options{.largest_fraction = largest_fraction};
  advisor_ = std::make_unique<compression::Advisor>(options);
  histories_.resize(std::size_t{1} << class_slots_log2);
  frames_in_a_row_.resize(histories_.size());
  compression::Link& memory = links_[static_cast<std::size_t>(Way::memory)];
  memory.out = memory.in = compression::TimeModel(usual_copy);
}

compression::History& HostCodec::history(const Tensor& tensor) {
  return histories_[slot_of(class_of(tensor))];
}

bool HostCodec::is_copy_due(const Tensor& tensor) {
  const compression::Link& memory = links_[static_cast<std::size_t>(Way::memory)];
  std::uint32_t& frames = frames_in_a_row_[slot_of(class_of(tensor))];
  const bool due = std::min(memory.out.observations(tensor.bytes), memory.in.observations(tensor.bytes)) <
                       copies_to_time ||
                   frames >= copied_again_after;
  if (due) frames = 0;
  return due;
}

std::optional<compression::Decision> HostCodec::decide(const Tensor& tensor,
                                                       std::span<const std::byte> content, Way way) {
  if (compress_ != Compress::automatic) return {};
  const std::lock_guard lock(mutex_);
  if (way == Way::memory && is_copy_due(tensor)) return compression::Decision{};
  const compression::Tensor about{.element = element_of(tensor), .bytes = content.size(), .content = content};
  const compression::Link& link = links_[static_cast<std::size_t>(way)];
  const auto decision = advisor_->decide(history(tensor), about, transfer_on(way), link);
  if (way == Way::memory && decision.codec != Codec::raw) ++frames_in_a_row_[slot_of(class_of(tensor))];
  return decision;
}

HostCodec::Made HostCodec::encode(const Tensor& tensor, std::span<const std::byte> content,
                                  std::span<std::byte> frame, Way way) {
  const auto decision = decide(tensor, content, way);
  const Codec codec = decision ? decision->codec : codec_;
  if (codec == Codec::raw) return {};
  auto workspace = take_workspace();
  const std::uint64_t start = os::now_ns();
  const auto made =
      compression::compress(content, frame, {.codec = codec, .element = element_of(tensor)}, *workspace);
  const std::uint64_t ns = os::now_ns() - start;
  give_workspace(std::move(workspace));
  if (made.error != compression::FrameError::none) return {};
  if (decision) {
    const std::lock_guard lock(mutex_);
    advisor_->compressed(history(tensor), *decision, made.bytes, static_cast<double>(ns));
  }
  if (!is_worth_keeping(made.bytes, content.size())) return {.ns = ns};
  return {codec, made.bytes, ns};
}

bool HostCodec::decode(std::span<const std::byte> frame, std::span<std::byte> content, std::uint64_t* ns) {
  compression::Header header;
  if (compression::read_header(frame, header) != compression::FrameError::none) return false;
  auto workspace = take_workspace();
  const std::uint64_t start = os::now_ns();
  const auto error = compression::decompress(frame, content, *workspace);
  *ns = os::now_ns() - start;
  give_workspace(std::move(workspace));
  if (error != compression::FrameError::none) return false;
  if (advisor_ != nullptr) {
    const std::lock_guard lock(mutex_);
    advisor_->decompressed(header.codec, header.element, content.size(), frame.size(),
                           static_cast<double>(*ns));
  }
  return true;
}

void HostCodec::moved(Way way, bool out, std::uint64_t bytes, std::uint64_t ns) {
  if (advisor_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  compression::Link& link = links_[static_cast<std::size_t>(way)];
  (out ? link.out : link.in).observe({.bytes = bytes}, static_cast<double>(ns));
}

std::unique_ptr<compression::Workspace> HostCodec::take_workspace() {
  {
    const std::lock_guard lock(mutex_);
    if (!workspaces_.empty()) {
      auto workspace = std::move(workspaces_.back());
      workspaces_.pop_back();
      return workspace;
    }
  }
  return std::make_unique<compression::Workspace>();
}

void HostCodec::give_workspace(std::unique_ptr<compression::Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  workspaces_.push_back(std::move(workspace));
}

}  // namespace terrace::liballoc::offload
