// Which codecs can have made a tensor's coded form, from what the timeline tells of it: how long compressing
// took, how many bytes were sent, how long decompressing took. A timeline names no codec; it is right if at
// least one explains everything. Shares no code with the simulator.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

class CodecJudge {
 public:
  CodecJudge(const wire::Trace& trace, const Machine& machine)
      : trace_(trace), machine_(machine), codecs_(trace.tensors.size()) {}

  // Each answers whether some codec explains it, and keeps those that do.
  bool stored_at_start(std::uint32_t tensor, std::uint64_t stored);
  // `coded`: nothing but the coded form was there.
  bool compressed(std::uint32_t tensor, const OpTiming& timing, bool coded);
  // `inside`: tier 0, where alone one bit of each value may be kept.
  bool sent(std::uint32_t tensor, std::uint64_t stored, bool inside);
  // Of one that took its whole way, and was sent or had a form before.
  bool moved(const Transfer& transfer);
  // Whether what arrived in its coded form must be decompressed before it is read.
  bool waits_for_decoding(std::uint32_t tensor) const;
  bool decompressed(std::uint32_t tensor, const OpTiming& timing);
  // Whether an operation that needs signs alone can read the form; then it is one bit of each value.
  bool signs_read(std::uint32_t tensor);
  // Whether the form can give the values back; then it is no such one.
  bool values_needed(std::uint32_t tensor);

  void written(std::uint32_t tensor) { codecs_[tensor].clear(); }  // the coded form is of old content
  bool has_form(std::uint32_t tensor) const { return !codecs_[tensor].empty(); }

 private:
  std::uint64_t stored_by(std::uint32_t codec, std::uint32_t tensor) const;
  double compress_us(std::uint32_t codec, std::uint32_t tensor) const;
  double decompress_us(std::uint32_t codec, std::uint32_t tensor) const;
  bool recoded(std::uint32_t codec, std::uint32_t tensor, const OpTiming& timing) const;

  const wire::Trace& trace_;
  const Machine& machine_;
  std::vector<std::vector<std::uint32_t>> codecs_;  // per tensor; empty: there is no coded form
};

}  // namespace terrace::planner
