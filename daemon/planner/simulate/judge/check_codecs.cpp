#include "daemon/planner/simulate/judge/check_codecs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

bool took(const OpTiming& timing, double us) { return same(timing.end_us, timing.start_us + us); }

}  // namespace

// As machine.h says it.
std::uint64_t CodecJudge::stored_by(std::uint32_t codec, std::uint32_t tensor) const {
  const CodecCost& c = machine_.codecs[codec];
  const auto bytes = static_cast<double>(trace_.tensors[tensor].bytes);
  if (c.one_bit) {
    const std::string& type = trace_.tensors[tensor].dtype;
    const double size = type == "float64"                         ? 8
                        : type == "float32"                       ? 4
                        : type == "float16" || type == "bfloat16" ? 2
                                                                  : 0;
    return size == 0 ? never : static_cast<std::uint64_t>(std::ceil(std::ceil(bytes / size) / 8));
  }
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
    if (!machine_.codecs[c].one_bit && stored_by(c, tensor) == stored) codecs_[tensor].push_back(c);
  }
  return has_form(tensor) || stored == trace_.tensors[tensor].bytes;
}

// A form that is there still costs nothing more; another codec's is undone first.
bool CodecJudge::recoded(std::uint32_t codec, std::uint32_t tensor, const OpTiming& timing) const {
  return std::any_of(codecs_[tensor].begin(), codecs_[tensor].end(), [&](std::uint32_t old) {
    if (old != codec && machine_.codecs[old].one_bit) return false;
    return took(timing, old == codec ? 0 : decompress_us(old, tensor) + compress_us(codec, tensor));
  });
}

bool CodecJudge::compressed(std::uint32_t tensor, const OpTiming& timing, bool coded) {
  std::vector<std::uint32_t> possible;
  for (std::uint32_t c = 0; c < machine_.codecs.size(); ++c) {
    if (machine_.codecs[c].overlaps) continue;
    const bool fresh = !coded && took(timing, compress_us(c, tensor));
    if (fresh || recoded(c, tensor, timing)) possible.push_back(c);
  }
  codecs_[tensor] = std::move(possible);
  return has_form(tensor);
}

// What overlaps needs no form beforehand: it makes one on the way.
bool CodecJudge::sent(std::uint32_t tensor, std::uint64_t stored, bool inside) {
  std::vector<std::uint32_t> possible;
  const std::vector<std::uint32_t>& had = codecs_[tensor];
  for (std::uint32_t c = 0; c < machine_.codecs.size(); ++c) {
    if (machine_.codecs[c].one_bit && !inside) continue;
    const bool has = std::find(had.begin(), had.end(), c) != had.end();
    if ((has || machine_.codecs[c].overlaps) && stored_by(c, tensor) == stored) possible.push_back(c);
  }
  codecs_[tensor] = std::move(possible);
  return has_form(tensor) || stored == trace_.tensors[tensor].bytes;
}

bool CodecJudge::moved(const Transfer& t) {
  if (t.stored_bytes == trace_.tensors[t.tensor].bytes) return true;
  std::erase_if(codecs_[t.tensor], [&](std::uint32_t c) {
    const double least_us = t.in ? decompress_us(c, t.tensor) : compress_us(c, t.tensor);
    return machine_.codecs[c].overlaps && !at_most(least_us, t.end_us - t.start_us);
  });
  return has_form(t.tensor);
}

bool CodecJudge::waits_for_decoding(std::uint32_t tensor) const {
  const std::vector<std::uint32_t>& codecs = codecs_[tensor];
  return std::none_of(codecs.begin(), codecs.end(),
                      [&](std::uint32_t c) { return machine_.codecs[c].overlaps; });
}

bool CodecJudge::signs_read(std::uint32_t tensor) {
  std::erase_if(codecs_[tensor], [&](std::uint32_t c) { return !machine_.codecs[c].one_bit; });
  return has_form(tensor);
}

bool CodecJudge::values_needed(std::uint32_t tensor) {
  std::erase_if(codecs_[tensor], [&](std::uint32_t c) { return machine_.codecs[c].one_bit; });
  return has_form(tensor);
}

bool CodecJudge::decompressed(std::uint32_t tensor, const OpTiming& timing) {
  values_needed(tensor);
  std::erase_if(codecs_[tensor], [&](std::uint32_t c) { return !took(timing, decompress_us(c, tensor)); });
  return has_form(tensor);
}

}  // namespace terrace::planner
