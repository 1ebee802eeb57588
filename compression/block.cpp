// Which kind a block becomes: docs/formats/frame.md, "Which kind a block becomes". The rules are looked at in
// their order there, cheapest first: most blocks are told not to be zero, nor one element repeated, by their
// first bytes.
#include "compression/block.h"

#include <algorithm>

#include "compression/base/bytes.h"
#include "compression/codecs_own.h"
#include "compression/masks.h"

namespace terrace::compression {
namespace {

bool is_all_zero(std::span<const std::byte> content) {
  constexpr std::size_t step = 64;
  std::size_t at = 0;
  for (; at + step <= content.size(); at += step) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < step; i += 8) all |= load<std::uint64_t>(content.data() + at + i);
    if (all != 0) return false;
  }
  return is_zero(content.subspan(at));
}

bool is_repeat(std::span<const std::byte> content, std::size_t width) {
  return content.size() > payload_unit && std::memcmp(content.data(), content.data() + width, width) == 0 &&
         std::memcmp(content.data(), content.data() + width, content.size() - width) == 0;
}

template <typename T>
std::size_t zeros_of(const std::byte* elements) {
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < 64; ++i) zeros += load<T>(elements + i * sizeof(T)) == 0 ? 1 : 0;
  return zeros;
}

// Rule 4: the share of zeros among 16 groups of 64 elements is below what a mask costs.
template <typename T>
bool is_dense(std::span<const std::byte> content) {
  constexpr std::size_t samples = 16, groups = block_bytes / sizeof(T) / 64;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < samples; ++i)
    zeros += zeros_of<T>(content.data() + i * groups / samples * 64 * sizeof(T));
  return zeros < samples * 64 / (8 * sizeof(T));
}

bool is_dense(std::span<const std::byte> content, std::size_t width) {
  switch (width) {
    case 1:
      return is_dense<std::uint8_t>(content);
    case 2:
      return is_dense<std::uint16_t>(content);
    case 4:
      return is_dense<std::uint32_t>(content);
    default:
      return is_dense<std::uint64_t>(content);
  }
}

bool stops_at_dense(Codec codec) {
  return codec == Codec::zvc || codec == Codec::rle || codec == Codec::csr8;
}

// The samples of a block that is likely to be coded would be waited for, and its mask holds the answer.
bool is_sampled(Codec codec, const Workspace& workspace) {
  return stops_at_dense(codec) && !(codec == Codec::zvc && workspace.packs_unsampled);
}

EncodedBlock unsummed(BlockKind kind, std::size_t bytes, std::span<const std::byte> extent) {
  return {{.checksum = 0, .offset_units = 0, .kind = kind, .bytes = static_cast<std::uint32_t>(bytes)},
          extent};
}

EncodedBlock raw(std::span<const std::byte> content) {
  return unsummed(BlockKind::raw, content.size(), content);
}

EncodedBlock repeat(std::span<const std::byte> content, std::size_t width, Workspace& workspace) {
  for (std::size_t i = 0; i < payload_unit; ++i) workspace.coded()[i] = content[i % width];
  return unsummed(BlockKind::repeat, payload_unit, {workspace.coded(), payload_unit});
}

bool decode_raw(const Kernels& kernels, std::uint64_t checksum, std::span<const std::byte> extent,
                std::span<std::byte> content, const Workspace& workspace) {
  if (workspace.past_caches)
    return kernels.store(content.data(), extent.data(), extent.size(), true) == checksum;
  if (kernels.checksum(extent.data(), extent.size()) != checksum) return false;
  std::memcpy(content.data(), extent.data(), content.size());
  return true;
}

bool decode_repeat(std::span<const std::byte> extent, std::size_t width, std::span<std::byte> content) {
  for (std::size_t i = width; i < payload_unit; ++i)
    if (extent[i] != extent[i - width]) return false;
  for (std::size_t i = 0; i < content.size(); i += payload_unit)
    std::memcpy(content.data() + i, extent.data(), std::min(payload_unit, content.size() - i));
  return true;
}

}  // namespace

const BlockCodec* own_codecs(Codec codec) {
  static constexpr BlockCodec raw{Codec::raw, nullptr, nullptr};
  switch (codec) {
    case Codec::raw:
      return &raw;
    case Codec::zvc:
      return &zvc_codec;
    case Codec::zvc_exp:
      return &zvc_exp_codec;
    case Codec::rle:
      return &rle_codec;
    case Codec::csr8:
      return &csr8_codec;
    default:
      return nullptr;
  }
}

EncodedBlock encode_unsummed(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                             std::span<const std::byte> content, Workspace& workspace) {
  const std::size_t width = width_of(type);
  if (is_all_zero(content)) return {};
  if (is_repeat(content, width)) return repeat(content, width, workspace);
  if (codec.encode == nullptr ||
      (content.size() == block_bytes && is_sampled(codec.codec, workspace) && is_dense(content, width)))
    return raw(content);
  const auto [kind, bytes, begin, failed] = codec.encode(kernels, type, content, workspace);
  if (failed) return {.entry = {}, .extent = {}, .failed = true};
  const std::size_t extent = round_up(bytes, payload_unit);
  if (bytes == 0 || extent >= content.size()) return raw(content);
  std::byte* const coded = workspace.coded() + begin;
  std::memset(coded + bytes, 0, extent - bytes);
  return unsummed(kind, bytes, {coded, extent});
}

EncodedBlock encode_block(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                          std::span<const std::byte> content, Workspace& workspace) {
  EncodedBlock block = encode_unsummed(kernels, codec, type, content, workspace);
  if (!block.extent.empty())
    block.entry.checksum = kernels.checksum(block.extent.data(), block.extent.size());
  return block;
}

Entry store_extent(const Kernels& kernels, const EncodedBlock& block, std::byte* dst) {
  Entry entry = block.entry;
  const bool cold = entry.kind == BlockKind::raw;
  if (!block.extent.empty())
    entry.checksum = kernels.store(dst, block.extent.data(), block.extent.size(), cold);
  return entry;
}

bool decode_block(const Kernels& kernels, const BlockCodec& codec, ElementType type, const Entry& entry,
                  std::span<const std::byte> extent, std::span<std::byte> content, Workspace& workspace) {
  if (entry.kind == BlockKind::zero) {
    std::memset(content.data(), 0, content.size());
    return true;
  }
  if (entry.kind == BlockKind::raw) return decode_raw(kernels, entry.checksum, extent, content, workspace);
  if (kernels.checksum(extent.data(), extent.size()) != entry.checksum) return false;
  if (entry.kind == BlockKind::repeat) return decode_repeat(extent, width_of(type), content);
  const auto padding = extent.subspan(entry.bytes);
  return is_zero(padding) &&
         codec.decode(kernels, type, entry.kind, extent.first(entry.bytes), content, workspace);
}

}  // namespace terrace::compression
