// Content to frame to content, for any codec and type: nothing is lost, nothing is larger than frame_bound(),
// every block decodes alone.
#include <cstdlib>

#include "compression/external_codecs.h"
#include "contents.h"
#include "tests/compression/walled.h"

using namespace terrace::compression;
using test::Walled;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_blocks(std::span<const std::byte> frame, std::span<const std::byte> content) {
  Header header;
  require(read_header(frame, header) == FrameError::none && check_table(frame, header) == FrameError::none);
  for (std::uint64_t i = 0; i < header.blocks(); ++i) {
    const Walled block(header.content_of(i));
    require(decompress_block(frame, header, i, block.span(), test::workspace(), all_codecs) ==
            FrameError::none);
    require(block.equals(content.subspan(i * block_bytes, block.size())) && block.holds());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  test::Input input(data, size);
  FrameOptions options;
  options.codec = static_cast<Codec>(input.byte() % codec_count);
  options.element = static_cast<ElementType>(input.byte() % element_type_count);
  options.alignment_log2 = 4 + input.byte() % 10;
  const Walled content(test::content_from(input, options.element));
  const Walled room(frame_bound(content.size(), options.alignment_log2));
  const Compressed made = compress(content.span(), room.span(), options, test::workspace(), all_codecs);
  require(made.error == FrameError::none && made.bytes <= room.size() && room.holds());
  const Walled frame(room.span().first(made.bytes)), back(content.size());
  require(decompress(frame.span(), back.span(), test::workspace(), all_codecs) == FrameError::none);
  require(back.equals(content.span()) && back.holds());
  check_blocks(frame.span(), content.span());
  return 0;
}
