// lz4, zstd and blosc are called as their manuals advise for speed: one call a tensor, contexts kept, lz4's
// default acceleration, zstd level 1, blosc level 5 with one thread. blosc is 1.x: Debian 12 has no c-blosc2.
#include "tools/bench/compression/contenders.h"

#include <blosc.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "compression/compressor.h"
#include "compression/external_codecs.h"

namespace terrace::bench {
namespace {

using compression::Codec;
using compression::ElementType;
using compression::Kernels;

char* chars(std::span<std::byte> bytes) { return reinterpret_cast<char*>(bytes.data()); }
const char* chars(std::span<const std::byte> bytes) { return reinterpret_cast<const char*>(bytes.data()); }

Contender ours(std::string name, Codec codec, ElementType element, const Kernels& kernels) {
  auto workspace = std::make_shared<compression::Workspace>();
  const compression::FrameOptions options{.codec = codec, .element = element};
  return {std::move(name),
          [=, &kernels](std::span<const std::byte> content, std::span<std::byte> frame) {
            const auto made =
                compression::compress(content, frame, options, *workspace, compression::all_codecs, kernels);
            return made.error == compression::FrameError::none ? made.bytes : 0;
          },
          [=, &kernels](std::span<const std::byte> frame, std::span<std::byte> content) {
            return compression::decompress(frame, content, *workspace, compression::all_codecs, kernels) ==
                   compression::FrameError::none;
          }};
}

Contender lz4() {
  return {"lz4",
          [](std::span<const std::byte> content, std::span<std::byte> frame) {
            return static_cast<std::size_t>(std::max(
                0, LZ4_compress_default(chars(content), chars(frame), static_cast<int>(content.size()),
                                        static_cast<int>(frame.size()))));
          },
          [](std::span<const std::byte> frame, std::span<std::byte> content) {
            return LZ4_decompress_safe(chars(frame), chars(content), static_cast<int>(frame.size()),
                                       static_cast<int>(content.size())) == static_cast<int>(content.size());
          }};
}

Contender zstd() {
  const std::shared_ptr<ZSTD_CCtx> encoder(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const std::shared_ptr<ZSTD_DCtx> decoder(ZSTD_createDCtx(), ZSTD_freeDCtx);
  return {"zstd -1",
          [encoder](std::span<const std::byte> content, std::span<std::byte> frame) {
            const std::size_t made = ZSTD_compressCCtx(encoder.get(), frame.data(), frame.size(),
                                                       content.data(), content.size(), 1);
            return ZSTD_isError(made) != 0 ? 0 : made;
          },
          [decoder](std::span<const std::byte> frame, std::span<std::byte> content) {
            return ZSTD_decompressDCtx(decoder.get(), content.data(), content.size(), frame.data(),
                                       frame.size()) == content.size();
          }};
}

Contender blosc(std::string name, int shuffle, ElementType element) {
  const std::size_t width = compression::width_of(element);
  return {std::move(name),
          [shuffle, width](std::span<const std::byte> content, std::span<std::byte> frame) {
            return static_cast<std::size_t>(
                std::max(0, blosc_compress_ctx(5, shuffle, width, content.size(), content.data(),
                                               frame.data(), frame.size(), "lz4", 0, 1)));
          },
          [](std::span<const std::byte> frame, std::span<std::byte> content) {
            return blosc_decompress_ctx(frame.data(), content.data(), content.size(), 1) ==
                   static_cast<int>(content.size());
          }};
}

std::string zvc_name(const Kernels& kernels) { return std::string("zvc ") + kernels.name; }

}  // namespace

std::size_t frame_room(std::size_t content_bytes) {
  return std::max({static_cast<std::size_t>(compression::frame_bound(content_bytes)),
                   static_cast<std::size_t>(LZ4_COMPRESSBOUND(content_bytes)),
                   ZSTD_compressBound(content_bytes), content_bytes + BLOSC_MAX_OVERHEAD});
}

std::vector<Contender> every_contender(ElementType element) {
  std::vector<Contender> all;
  for (const Kernels* kernels : compression::all_kernels())
    all.push_back(ours(zvc_name(*kernels), Codec::zvc, element, *kernels));
  for (const Kernels* kernels : compression::all_kernels()) {
    const bool best = kernels == &compression::kernels();
    all.push_back(ours(best ? zvc_exp_name : std::string(zvc_exp_name) + " " + kernels->name, Codec::zvc_exp,
                       element, *kernels));
  }
  for (const Codec codec : {Codec::raw, Codec::rle, Codec::csr8})
    all.push_back(ours(std::string(compression::name_of(codec)), codec, element, compression::kernels()));
  all.push_back(ours("lz4 in frames", Codec::lz4, element, compression::kernels()));
  all.push_back(ours("zstd in frames", Codec::zstd, element, compression::kernels()));
  all.push_back(lz4());
  all.push_back(zstd());
  all.push_back(blosc("blosc lz4+shuffle", BLOSC_SHUFFLE, element));
  all.push_back(blosc("blosc lz4+bitshuffle", BLOSC_BITSHUFFLE, element));
  return all;
}

std::vector<Contender> main_contenders(ElementType element) {
  return {zvc_contender(element), ours(zvc_exp_name, Codec::zvc_exp, element, compression::kernels()), lz4(),
          zstd()};
}

Contender zvc_contender(ElementType element) {
  return ours(best_zvc_name(), Codec::zvc, element, compression::kernels());
}

std::vector<std::string> compared_libraries() {
  return {std::string("lz4 ") + LZ4_versionString(), std::string("zstd ") + ZSTD_versionString(),
          std::string("blosc ") + blosc_get_version_string()};
}

std::string best_zvc_name() { return zvc_name(compression::kernels()); }

}  // namespace terrace::bench
