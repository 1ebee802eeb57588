// zvc: zero-value compression (Rhu et al., "Compressing DMA Engine", HPCA 2018, section IV): a bit for each
// element, and the elements that are not zero. "Zero" is all bits zero, tested on integers, so that -0.0,
// NaNs and denormals stay.
#include <algorithm>
#include <bit>

#include "compression/base/bytes.h"
#include "compression/codecs_own.h"
#include "compression/masks.h"

namespace terrace::compression {
namespace {

BlockCodec::Encoded encode(const Kernels& kernels, ElementType type, std::span<const std::byte> content,
                           Workspace& workspace) {
  const std::size_t width = width_of(type), elements = content.size() / width;
  std::byte* values = workspace.coded() + mask_bytes(elements);
  const std::size_t count = pack_part(kernels, width, content, workspace.mask, values, workspace);
  const std::span<const std::uint64_t> mask(workspace.mask, mask_words(elements));
  if (content.size() == block_bytes && is_dense(mask, width)) return {};
  return behind_mask(mask, values, count * width, workspace);
}

bool decode(const Kernels& kernels, ElementType type, BlockKind kind, std::span<const std::byte> payload,
            std::span<std::byte> content, Workspace& workspace) {
  const std::size_t width = width_of(type), elements = content.size() / width;
  const auto mask = read_mask(payload, kind == BlockKind::sparse, elements, workspace.mask);
  if (!mask) return false;
  const std::size_t count = count_bits({workspace.mask, mask_words(elements)});
  if (payload.size() - *mask != count * width) return false;
  expander(kernels, workspace, width)(workspace.mask, elements, payload.data() + *mask, content.data());
  return true;
}

}  // namespace

const BlockCodec zvc_codec{Codec::zvc, encode, decode};

}  // namespace terrace::compression
