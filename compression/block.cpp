// Which kind a block becomes: docs/formats/frame.md, "Which kind a block becomes". The rules are looked at in
// their order there, cheapest first: most blocks are told not to be zero, nor one element repeated, by their
// first bytes.
#include "compression/block.h"

#include <algorithm>

#include "compression/bytes.h"
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

EncodedBlock finish(const Kernels& kernels, BlockKind kind, std::size_t bytes,
                    std::span<const std::byte> extent) {
  return {{.checksum = kernels.checksum(extent.data(), extent.size()),
           .offset_units = 0,
           .kind = kind,
           .bytes = static_cast<std::uint32_t>(bytes)},
          extent};
}

EncodedBlock repeat(const Kernels& kernels, std::span<const std::byte> content, std::size_t width,
                    Workspace& workspace) {
  for (std::size_t i = 0; i < payload_unit; ++i) workspace.coded[i] = content[i % width];
  return finish(kernels, BlockKind::repeat, payload_unit, {workspace.coded, payload_unit});
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

EncodedBlock encode_block(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                          std::span<const std::byte> content, Workspace& workspace) {
  const std::size_t width = width_of(type);
  if (is_all_zero(content)) return {};
  if (is_repeat(content, width)) return repeat(kernels, content, width, workspace);
  if (codec.encode == nullptr ||
      (stops_at_dense(codec.codec) && content.size() == block_bytes && is_dense(content, width)))
    return finish(kernels, BlockKind::raw, content.size(), content);
  const auto [kind, bytes] = codec.encode(kernels, type, content, workspace);
  const std::size_t extent = round_up(bytes, payload_unit);
  if (bytes == 0 || extent >= content.size()) return finish(kernels, BlockKind::raw, content.size(), content);
  std::memset(workspace.coded + bytes, 0, extent - bytes);
  return finish(kernels, kind, bytes, {workspace.coded, extent});
}

bool decode_block(const Kernels& kernels, const BlockCodec& codec, ElementType type, const Entry& entry,
                  std::span<const std::byte> extent, std::span<std::byte> content, Workspace& workspace) {
  if (entry.kind == BlockKind::zero) {
    std::memset(content.data(), 0, content.size());
    return true;
  }
  if (kernels.checksum(extent.data(), extent.size()) != entry.checksum) return false;
  switch (entry.kind) {
    case BlockKind::raw:
      std::memcpy(content.data(), extent.data(), content.size());
      return true;
    case BlockKind::repeat:
      return decode_repeat(extent, width_of(type), content);
    default:
      break;
  }
  const auto padding = extent.subspan(entry.bytes);
  return is_zero(padding) &&
         codec.decode(kernels, type, entry.kind, extent.first(entry.bytes), content, workspace);
}

}  // namespace terrace::compression
