#include "liballoc/gpu/offload/host_codec.h"

#include <utility>

#include "compression/frame.h"
#include "liballoc/gpu/offload/frame_rules.h"
#include "liballoc/os.h"

namespace terrace::liballoc::offload {
namespace {

using compression::Codec;

}  // namespace

HostCodec::HostCodec(Compress compress, Codec codec) : compress_(compress), codec_(codec) {
  if (compress_ != Compress::automatic) return;
  advisor_ = std::make_unique<compression::Advisor>();
  histories_.resize(std::size_t{1} << class_slots_log2);
}

compression::History& HostCodec::history(const Tensor& tensor) {
  return histories_[slot_of(class_of(tensor))];
}

std::optional<compression::Decision> HostCodec::decide(const Tensor& tensor,
                                                       std::span<const std::byte> content, Way way) {
  if (compress_ != Compress::automatic) return {};
  const std::lock_guard lock(mutex_);
  const compression::Tensor about{.element = element_of(tensor), .bytes = content.size(), .content = content};
  return advisor_->decide(history(tensor), about, {}, links_[static_cast<std::size_t>(way)]);
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
