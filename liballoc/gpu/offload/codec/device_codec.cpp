#include "liballoc/gpu/offload/codec/device_codec.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "liballoc/gpu/offload/codec/frame_rules.h"

namespace terrace::liballoc::offload {
namespace {

using compression::Codec;
using compression::cuda::Verdict;

constexpr std::uint64_t scratch_alignment = 256;

bool is_aligned(const void* at, std::uint64_t to) { return reinterpret_cast<std::uintptr_t>(at) % to == 0; }

// A kernel reads whole elements at their own alignment; raw frames are of bytes.
compression::ElementType element_for_kernel(const Tensor& tensor) {
  if (tensor.codec_to_try == Codec::raw) return compression::ElementType::u8;
  const compression::ElementType element = element_of(tensor);
  const bool aligned = is_aligned(tensor.source, compression::width_of(element));
  return aligned ? element : compression::ElementType::u8;
}

}  // namespace

DeviceCodec::~DeviceCodec() {
  for (const Stream stream : {encode_, decode_})
    if (stream != nullptr) link_->device().destroy_stream(stream);
}

int DeviceCodec::open(DeviceLink* link, Slab* slab, const Settings& settings, std::string* reason) {
  link_ = link;
  slab_ = slab;
  codec_ = settings.codec;
  tiers::Extent page;
  static_assert(Staging::most_pieces * sizeof(Verdict) <= Slab::unit_bytes);
  if (const int error = slab->reserve(Slab::unit_bytes, &page); error != 0) {
    *reason = "host memory has no page for the codecs' results: take a larger budget";
    return error;
  }
  plan_.verdicts = plan_.device_verdicts = reinterpret_cast<Verdict*>(slab->at(page));
  for (Stream* stream : {&encode_, &decode_})
    if (const int error = link_->device().create_stream(stream); error != 0) {
      *reason = std::string("the device gave no stream: ") + link_->device().error_text();
      return error;
    }
  if (const int error = open_kernels(reason); error != 0) return error;
  staging_.open(&link_->device(), settings.staging_bytes);
  const bool is_by_host = link_->device().kind() == tiers::gpu::Kind::emulated;
  if (settings.compress == Compress::automatic)
    choice_.emplace(is_by_host ? CodecChoice::Runs::in_its_place : CodecChoice::Runs::beside_the_job);
  return 0;
}

// Finds out here, not at the first tensor, that a GPU has no kernels in this build.
int DeviceCodec::open_kernels(std::string* reason) {
  if (link_->device().kind() == tiers::gpu::Kind::emulated) {
    encode_workspace_ = std::make_unique<compression::Workspace>();
    decode_workspace_ = std::make_unique<compression::Workspace>();
    return 0;
  }
  kernels_ = cuda_kernels();
  if (kernels_ == nullptr) {
    *reason = "this build has no CUDA kernels: say compress off or auto, or build Terrace where nvcc is";
    return ENOTSUP;
  }
  const tiers::gpu::Kernel ask{.cuda = kernels_->plan, .arguments = &plan_};
  if (link_->device().launch(encode_, ask) == 0) return 0;
  *reason = std::string("the codecs' kernels do not run on this GPU: ") + link_->device().error_text() +
            "; say compress off or auto, or build Terrace with the GPU's CMAKE_CUDA_ARCHITECTURES";
  return ENOTSUP;
}

std::uint64_t DeviceCodec::scratch_bytes(std::uint64_t content_bytes) const {
  return kernels_ == nullptr ? 0 : kernels_->scratch_bytes(content_bytes);
}

// The frame, and behind it the scratch memory.
std::uint64_t DeviceCodec::piece_bytes(std::uint64_t content_bytes) const {
  return compression::frame_bound(content_bytes) + scratch_alignment + scratch_bytes(content_bytes);
}

Codec DeviceCodec::choose(const Tensor& tensor) {
  return choice_ ? choice_->choose(class_of(tensor), tensor.pressed) : codec_;
}

void DeviceCodec::abandon(Piece* piece) {
  for (const Stream stream : {link_->in(), encode_, decode_}) {
    Event event = nullptr;
    if (link_->mark(stream, &event) == 0) link_->device().synchronize(event);
    link_->give_event(event);
  }
  give(piece);
}

void DeviceCodec::describe(const Tensor& tensor, Piece& piece, compression::Workspace* workspace) {
  const std::uint64_t bound = compression::frame_bound(tensor.bytes);
  const std::uint64_t scratch = (bound + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  const std::size_t number = staging_.number_of(&piece);
  piece.call = {.source = {.content = tensor.source,
                           .frame = frame(piece),
                           .content_bytes = tensor.bytes,
                           .frame_capacity = bound,
                           .codec = tensor.codec_to_try,
                           .element = element_for_kernel(tensor)},
                .target = {.frame = frame(piece),
                           .content = tensor.to,
                           .frame_bytes = tensor.stored_bytes,
                           .content_bytes = tensor.bytes},
                .scratch = frame(piece) + scratch,
                .scratch_bytes = scratch_bytes(tensor.bytes),
                .verdict = plan_.verdicts + number,
                .device_verdict = plan_.device_verdicts + number,
                .launch = &plan_.launch,
                .workspace = workspace};
  *piece.call.verdict = {{0, compression::FrameError::truncated}, 0};  // until a kernel says otherwise
}

int DeviceCodec::launch(Stream stream, Piece& piece, int (*cuda)(void*, void*), void (*emulated)(void*)) {
  return link_->device().launch(stream, {.cuda = cuda, .emulated = emulated, .arguments = &piece.call});
}

int DeviceCodec::encode(const Tensor& tensor, Piece& piece, Event* coded) {
  describe(tensor, piece, encode_workspace_.get());
  const auto cuda = kernels_ == nullptr ? nullptr : kernels_->encode;
  if (const int error = launch(encode_, piece, cuda, encode_emulated); error != 0) return error;
  return link_->mark(encode_, coded);
}

DeviceCodec::Made DeviceCodec::made(const Tensor& tensor, const Piece& piece) {
  const Verdict& verdict = *piece.call.verdict;
  if (verdict.result.error != compression::FrameError::none) return {.ns = verdict.ns};
  if (choice_)
    choice_->compressed(class_of(tensor), tensor.codec_to_try, tensor.bytes, verdict.result.bytes,
                        verdict.ns);
  return {verdict.result.bytes, is_worth_keeping(verdict.result.bytes, tensor.bytes), verdict.ns};
}

bool DeviceCodec::takes_target(const Tensor& tensor) {
  return is_aligned(tensor.to, compression::width_of(element_for_kernel(tensor)));
}

int DeviceCodec::decode(const Tensor& tensor, Piece& piece, Event* arrived) {
  if (!takes_target(tensor)) return EINVAL;
  const DeviceLink::Move move{slab_, tensor.memory.offset, frame(piece), tensor.stored_bytes};
  Event staged = nullptr;
  int error = link_->copy_in(move, nullptr, &staged);
  if (error == 0) error = link_->device().wait(decode_, staged);
  link_->give_event(staged);
  return error != 0 ? error : decode_staged(tensor, piece, arrived);
}

int DeviceCodec::decode_staged(const Tensor& tensor, Piece& piece, Event* arrived) {
  if (!takes_target(tensor)) return EINVAL;
  describe(tensor, piece, decode_workspace_.get());
  int error = link_->device().wait(decode_, tensor.to_free);
  const auto cuda = kernels_ == nullptr ? nullptr : kernels_->decode;
  if (error == 0) error = launch(decode_, piece, cuda, decode_emulated);
  return error != 0 ? error : link_->mark(decode_, arrived);
}

int DeviceCodec::verdict(const Tensor& tensor, const Piece& piece, std::uint64_t* ns) {
  const Verdict& verdict = *piece.call.verdict;
  if (verdict.result.error != compression::FrameError::none) return EBADMSG;
  if (choice_) choice_->decompressed(class_of(tensor), tensor.codec, tensor.bytes, verdict.ns);
  *ns = verdict.ns;
  return 0;
}

void DeviceCodec::crossed_link(std::uint64_t bytes, std::uint64_t begun_ns, std::uint64_t ended_ns) {
  if (!choice_) return;
  const std::lock_guard lock(mutex_);
  choice_->crossed_link(bytes, ended_ns - std::min(ended_ns, std::max(begun_ns, link_free_ns_)));
  link_free_ns_ = ended_ns;
}

void DeviceCodec::crossed_drive(std::uint64_t bytes, std::uint64_t ns) {
  if (choice_) choice_->crossed_drive(bytes, ns);
}

}  // namespace terrace::liballoc::offload
