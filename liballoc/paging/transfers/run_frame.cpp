#include "liballoc/paging/transfers/run_frame.h"

#include <cstring>

#include "compression/base/bytes.h"
#include "liballoc/base/checksum.h"

namespace terrace::liballoc {
namespace {

using compression::block_bytes;
using compression::Entry;
using compression::FrameError;
using compression::Header;

constexpr std::size_t blocks = run_bytes / block_bytes;

// Block by block from the front. A block whose bytes begin before its content's end is taken aside before the
// block in front of it is written; no earlier one reaches it. (Block i ends at (i + 1) x 64 KiB; the bytes of
// block i + 2 begin no earlier than that: behind them lie their own and the later blocks' at most as many as
// their content, and less than a page of padding.)
bool decode_in_place(const std::byte* payload, const std::byte* head, const Header& header,
                     std::byte* content, CodecScratch& scratch) {
  const compression::BlockCodec* codec = compression::own_codecs(header.codec);
  if (codec == nullptr) return false;
  const std::span<const std::byte> table(head, RunFrame::head_bytes);
  const auto bytes_of = [&](std::size_t i) -> const std::byte* {
    const Entry entry = compression::read_entry(table, i);
    const std::byte* const bytes = payload + entry.offset();
    if (bytes >= content + (i + 1) * block_bytes) return bytes;
    std::memcpy(scratch.held[i % 2], bytes, entry.extent());
    return scratch.held[i % 2];
  };
  const std::byte* next = bytes_of(0);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::byte* const bytes = next;
    if (i + 1 < blocks) next = bytes_of(i + 1);
    const Entry entry = compression::read_entry(table, i);
    if (!compression::decode_block(compression::kernels(), *codec, header.element, entry,
                                   {bytes, entry.extent()}, {content + i * block_bytes, block_bytes},
                                   scratch.workspace))
      return false;
  }
  return true;
}

// Whether it is the frame that was written, and one of a run.
bool check_head(const std::byte* head, const RunDecoding& decoding, Header* header) {
  if (checksum(head, compression::header_bytes, decoding.generation) != decoding.sum) return false;
  if (compression::read_header({head, RunFrame::head_bytes}, *header) != FrameError::none) return false;
  if (header->content_bytes != run_bytes || header->payload_offset != RunFrame::head_bytes ||
      header->frame_bytes() > decoding.bytes)
    return false;
  return compression::check_table({head, RunFrame::head_bytes}, *header) == FrameError::none;
}

}  // namespace

// The frame's own checksums guard every byte of it; the header has the table's, so that the header's says
// which frame it is.
void RunEncoding::work(CodecScratch& scratch) {
  const std::uint64_t start = os::thread_ns();
  const auto made = compression::compress({run, run_bytes}, {buffer, RunFrame::buffer_bytes},
                                          {.codec = codec, .element = element}, scratch.workspace);
  ns = os::thread_ns() - start;
  frame_bytes = made.bytes;
  const std::size_t stored = compression::round_up(made.bytes, os::page_bytes);
  if (made.error != FrameError::none || stored > RunFrame::most_stored_bytes) return;
  std::memset(buffer + made.bytes, 0, stored - made.bytes);
  bytes = static_cast<std::uint32_t>(stored);
  sum = checksum(buffer, compression::header_bytes, generation);
}

void RunDecoding::work(CodecScratch& scratch) {
  const std::uint64_t start = os::thread_ns();
  std::byte head[RunFrame::head_bytes];
  std::memcpy(head, RunFrame::place(frame, bytes), sizeof head);
  Header header;
  is_intact = check_head(head, *this, &header) &&
              decode_in_place(RunFrame::place(frame, bytes) + sizeof head, head, header, frame, scratch);
  if (!is_intact) return;
  codec = header.codec;
  element = header.element;
  frame_bytes = header.frame_bytes();
  ns = os::thread_ns() - start;
}

}  // namespace terrace::liballoc
