#include "differential.h"

#include <cstring>

#include "compression/external_codecs.h"

namespace terrace::compression::test {
namespace {

constexpr std::size_t band = 64;
constexpr int band_byte = 0x3c;

bool band_holds(const std::byte* end) {
  return std::all_of(end - band, end, [](std::byte b) { return b == std::byte{band_byte}; });
}

}  // namespace

Differential::Differential() : frame_(most_bytes) {
  for (std::size_t i = 0; i < all_kernels().size(); ++i)
    contents_.push_back(std::make_unique<Walled>(most_bytes + band));
}

template <typename Decode>
Differential::Outcome Differential::compare(std::size_t content_bytes, Decode decode_into) {
  Outcome outcome;
  for (std::size_t set = 0; set < contents_.size(); ++set) {
    const Kernels& with = *all_kernels()[set];
    const auto content = contents_[set]->span().last(content_bytes);
    std::memset(content.data() - band, band_byte, band);
    // Other bytes for each set: what is not written differs.
    if (!content.empty()) std::memset(content.data(), 0x11 * static_cast<int>(set + 1), content.size());
    const FrameError error = decode_into(content, with);
    if (!band_holds(content.data())) outcome.fault = std::string(with.name) + " wrote before its destination";
    if (set == 0) {
      outcome.error = error;
      outcome.content = content;
    }
    if (error != outcome.error)
      outcome.fault =
          std::string(with.name) + " says " + describe(error) + ", not " + describe(outcome.error);
    else if (error == FrameError::none &&
             std::memcmp(content.data(), outcome.content.data(), content.size()) != 0)
      outcome.fault = std::string(with.name) + " decodes other content";
  }
  return outcome;
}

Differential::Outcome Differential::decode(std::span<const std::byte> frame) {
  if (frame.size() > most_bytes) return {FrameError::bad_argument, "", {}};
  const auto walled = frame_.span().last(frame.size());
  if (!frame.empty()) std::memcpy(walled.data(), frame.data(), frame.size());
  Header header;
  header.content_bytes = block_bytes;
  read_header(walled, header);
  const std::size_t content_bytes = header.content_bytes <= most_bytes ? header.content_bytes : block_bytes;
  return compare(content_bytes, [&](std::span<std::byte> content, const Kernels& with) {
    return decompress(walled, content, workspace(), all_codecs, with);
  });
}

Differential::Outcome Differential::decode_blocks(std::span<const std::byte> frame) {
  if (frame.size() > most_bytes) return {FrameError::bad_argument, "", {}};
  const auto walled = frame_.span().last(frame.size());
  if (!frame.empty()) std::memcpy(walled.data(), frame.data(), frame.size());
  Header header;
  Outcome outcome{read_header(walled, header), "", {}};
  if (outcome.error == FrameError::none) outcome.error = check_table(walled, header);
  for (std::uint64_t i = 0; outcome.error == FrameError::none && outcome.fault.empty() && i < header.blocks();
       ++i)
    outcome = compare(header.content_of(i), [&](std::span<std::byte> content, const Kernels& with) {
      return decompress_block(walled, header, i, content, workspace(), all_codecs, with);
    });
  return outcome;
}

}  // namespace terrace::compression::test
