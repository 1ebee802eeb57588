#include "compression/external_codecs.h"

#include <lz4.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <memory>

namespace terrace::compression {
namespace {

constexpr int zstd_level = 1;

// A context of zstd's is some hundred KiB and expensive to set up: one for each thread. Null while there is
// no memory for it.
ZSTD_CCtx* zstd_compressor() {
  thread_local std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(nullptr, &ZSTD_freeCCtx);
  if (context == nullptr) context.reset(ZSTD_createCCtx());
  return context.get();
}

ZSTD_DCtx* zstd_decompressor() {
  thread_local std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(nullptr, &ZSTD_freeDCtx);
  if (context == nullptr) context.reset(ZSTD_createDCtx());
  return context.get();
}

BlockCodec::Encoded lz4_encode(const Kernels&, ElementType, std::span<const std::byte> content,
                               Workspace& workspace) {
  const auto size = static_cast<int>(content.size());
  const int bytes = LZ4_compress_default(reinterpret_cast<const char*>(content.data()),
                                         reinterpret_cast<char*>(workspace.coded()), size, size - 1);
  return {BlockKind::coded, bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

bool lz4_decode(const Kernels&, ElementType, BlockKind, std::span<const std::byte> payload,
                std::span<std::byte> content, Workspace&) {
  const int bytes = LZ4_decompress_safe(reinterpret_cast<const char*>(payload.data()),
                                        reinterpret_cast<char*>(content.data()),
                                        static_cast<int>(payload.size()), static_cast<int>(content.size()));
  return bytes >= 0 && static_cast<std::size_t>(bytes) == content.size();
}

BlockCodec::Encoded zstd_encode(const Kernels&, ElementType, std::span<const std::byte> content,
                                Workspace& workspace) {
  ZSTD_CCtx* context = zstd_compressor();
  if (context == nullptr) return {.failed = true};
  const std::size_t bytes = ZSTD_compressCCtx(context, workspace.coded(), content.size() - 1, content.data(),
                                              content.size(), zstd_level);
  if (ZSTD_isError(bytes) == 0) return {BlockKind::coded, bytes};
  return {.failed = ZSTD_getErrorCode(bytes) != ZSTD_error_dstSize_tooSmall};
}

bool zstd_decode(const Kernels&, ElementType, BlockKind, std::span<const std::byte> payload,
                 std::span<std::byte> content, Workspace&) {
  // The library reads any number of frames, and skips those that are marked to be skipped; a block is one
  // frame.
  if (ZSTD_findFrameCompressedSize(payload.data(), payload.size()) != payload.size()) return false;
  return ZSTD_decompressDCtx(zstd_decompressor(), content.data(), content.size(), payload.data(),
                             payload.size()) == content.size();
}

bool zstd_can_decode() { return zstd_decompressor() != nullptr; }

constexpr BlockCodec lz4_codec{Codec::lz4, lz4_encode, lz4_decode};
constexpr BlockCodec zstd_codec{Codec::zstd, zstd_encode, zstd_decode, zstd_can_decode};

}  // namespace

const BlockCodec* all_codecs(Codec codec) {
  if (codec == Codec::lz4) return &lz4_codec;
  if (codec == Codec::zstd) return &zstd_codec;
  return own_codecs(codec);
}

}  // namespace terrace::compression
