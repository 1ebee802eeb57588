#include "daemon/planner/simulate/judge/check_codecs.h"

#include <algorithm>
#include <cmath>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

bool took(const OpTiming& timing, double us) { return same(timing.end_us, timing.start_us + us); }

}  // namespace

// As machine.h says it.
std::uint64_t CodecJudge::stored_by(std::uint32_t codec, std::uint32_t tensor) const {
  const CodecCost& c = machine_.codecs[codec];
  const auto bytes = static_cast<double>(trace_.tensors[tensor].bytes);
  if (!c.drops_zeros) return static_cast<std::uint64_t>(std::ceil(bytes * c.stored_share));
  const double dense = bytes * (1 - trace_.tensors[tensor].sparsity.value_or(0));
  return static_cast<std::uint64_t>(std::ceil(dense * c.stored_share + bytes * c.overhead_share));
}

double CodecJudge::compress_us(std::uint32_t codec, std::uint32_t tensor) const {
  return static_cast<double>(trace_.tensors[tensor].bytes) /
         machine_.codecs[codec].compress_bytes_per_second * 1e6;
}

double CodecJudge::decompress_us(std::uint32_t codec, std::uint32_t tensor) const {
  return static_cast<double>(trace_.tensors[tensor].bytes) /
         machine_.codecs[codec].decompress_bytes_per_second * 1e6;
}

bool CodecJudge::stored_at_start(std::uint32_t tensor, std::uint64_t stored) {
  for (std::uint32_t c = 0; c < machine_.codecs.size(); ++c) {
    if (stored_by(c, tensor) == stored) codecs_[tensor].push_back(c);
  }
  return has_form(tensor) || stored == trace_.tensors[tensor].bytes;
}

// A form that is there still costs nothing more; another codec's is undone first.
bool CodecJudge::recoded(std::uint32_t codec, std::uint32_t tensor, const OpTiming& timing) const {
  return std::any_of(codecs_[tensor].begin(), codecs_[tensor].end(), [&](std::uint32_t old) {
    return took(timing, old == codec ? 0 : decompress_us(old, tensor) + compress_us(codec, tensor));
  });
}

bool CodecJudge::compressed(std::uint32_t tensor, const OpTiming& timing, bool coded) {
  std::vector<std::uint32_t> possible;
  for (std::uint32_t c = 0; c < machine_.codecs.size(); ++c) {
    const bool fresh = !coded && took(timing, compress_us(c, tensor));
    if (fresh || recoded(c, tensor, timing)) possible.push_back(c);
  }
  codecs_[tensor] = std::move(possible);
  return has_form(tensor);
}

bool CodecJudge::sent(std::uint32_t tensor, std::uint64_t stored) {
  std::erase_if(codecs_[tensor], [&](std::uint32_t c) { return stored_by(c, tensor) != stored; });
  return has_form(tensor) || stored == trace_.tensors[tensor].bytes;
}

bool CodecJudge::decompressed(std::uint32_t tensor, const OpTiming& timing) {
  std::erase_if(codecs_[tensor], [&](std::uint32_t c) { return !took(timing, decompress_us(c, tensor)); });
  return has_form(tensor);
}

}  // namespace terrace::planner
