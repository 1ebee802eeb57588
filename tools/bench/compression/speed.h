// Speeds from DRAM. Every round runs all contenders over the same tensors, in an order that turns round from
// one round to the next; each runs right behind the copies that it is compared with, and medians are
// reported.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/bench/activations/activations.h"
#include "tools/bench/compression/contenders.h"
#include "tools/bench/compression/memory.h"

namespace terrace::bench {

// So many tensors of a size, with room for their frames and for what is decompressed from these: far more
// than a cache holds, and used one after the other, so that each is in DRAM again when its turn comes.
class WorkingSet {
 public:
  WorkingSet(std::size_t tensors, std::size_t tensor_bytes);
  void fill(const ActivationSpec& spec);  // all tensors alike

  std::size_t tensors() const { return tensors_; }
  std::size_t tensor_bytes() const { return tensor_bytes_; }
  std::size_t total_bytes() const {
    return inputs_.bytes().size() + frames_.bytes().size() + outputs_.bytes().size();
  }
  std::span<const std::byte> input(std::size_t i) const { return part(inputs_, i, tensor_bytes_); }
  std::span<std::byte> frame(std::size_t i) const { return part(frames_, i, frame_bytes_); }
  std::span<std::byte> output(std::size_t i) const { return part(outputs_, i, tensor_bytes_); }

 private:
  std::span<std::byte> part(const Buffer& buffer, std::size_t i, std::size_t bytes) const {
    return buffer.bytes().subspan(i % tensors_ * bytes, bytes);
  }

  std::size_t tensors_;
  std::size_t tensor_bytes_;
  std::size_t frame_bytes_;
  Buffer inputs_;
  Buffer frames_;
  Buffer outputs_;
};

// The fastest of streaming_copies() here.
StreamingCopy fastest_copy(const WorkingSet& set);

// One kind of data: rates in bytes of content a second, by round and their medians; ratios; shares of the
// roofline B / (1 + c) for compressing and B / (2 + c) for decompressing with ordinary stores, where B is
// twice the rate of the non-temporal copy and c the compressed share.
nlohmann::ordered_json measure_speed(WorkingSet& set, const StreamingCopy& copy, const std::string& name,
                                     const ActivationSpec& spec, const std::vector<Contender>& contenders,
                                     long rounds);

// The non-temporal copy and zvc on all cores at once, each with tensors of its own.
nlohmann::ordered_json measure_all_cores(WorkingSet& set, const StreamingCopy& copy,
                                         const ActivationSpec& spec, long rounds);

// zvc by every set of kernels on one tensor, so many times in a round, and the checksum's share of the time.
nlohmann::ordered_json measure_in_caches(long rounds, long times);

// Ends the program if the two differ.
void require_equal(std::span<const std::byte> decompressed, std::span<const std::byte> original,
                   const std::string& contender);

}  // namespace terrace::bench
