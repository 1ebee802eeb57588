// What proves that stored bytes are as they were, and when the host looks at them for it.
//
//   bytes lie in                     proof                               the host reads them
//   host memory alone                none: the memory has its own (ECC)  never
//   host memory, then the drive      their sum (stored_sum.h)            as they are written, as they come
//   back a frame, wherever                the sum in its header, which is     8 bytes of them
//                                    over all others; whoever decodes it
//                                    verifies the rest, a GPU's kernels
//                                    on the GPU
//
// A sum on the host runs at the speed of a core's memory, a GPU's link at several times that, so sums of
// everything cost a step seconds and find what the memory's own correction finds. With `everything` each
// stored byte is summed as it arrives in host memory and before it leaves it: for whoever looks for the cause
// of wrong bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "liballoc/gpu/offload/codec/stored_sum.h"
#include "liballoc/gpu/offload/tensors/tensor.h"

namespace terrace::liballoc::offload {

// In a frame's header (docs/formats/frame.md): the sum over the header, which has the table's, which has the
// blocks'.
inline constexpr std::uint64_t header_sum_at = 56;

inline std::uint64_t header_sum(const std::byte* frame) {
  std::uint64_t sum = 0;
  std::memcpy(&sum, frame + header_sum_at, sizeof(sum));
  return sum;
}

// What a caller finds who ignores the error: no number, of any floating-point type.
inline constexpr int poison = 0xff;

// Any thread; a tensor is one thread's at a time.
class Proofs {
 public:
  void sum_everything() { everything_ = true; }

  // The stored bytes of `tensor` have just come to `memory`, all of them.
  void take(Tensor& tensor, const std::byte* memory) {
    if (has_header(tensor))
      set(tensor, Tensor::Proof::header, header_sum(memory));
    else if (everything_)
      set(tensor, Tensor::Proof::sum, sum_of(tensor, memory));
    else
      tensor.proof = Tensor::Proof::none;
  }

  // Copies the source of a tensor that is stored as it is. With `to_be_written` its sum is taken on the way,
  // while the bytes are in the cache.
  void take_copy(Tensor& tensor, std::byte* memory, bool to_be_written) {
    if (everything_ || to_be_written) {
      set(tensor, Tensor::Proof::sum, copy_and_sum(memory, tensor.source, tensor.bytes, tensor.id));
      count(tensor.bytes);
    } else {
      std::memcpy(memory, tensor.source, tensor.bytes);
      tensor.proof = Tensor::Proof::none;
    }
  }

  // Whether the host is to look at what came back. Under the engine's lock: the drive's thread may be about
  // to give a tensor its sum, but none that this is true of.
  bool are_to_be_seen(const Tensor& tensor) const {
    if (tensor.proof == Tensor::Proof::sum) return everything_ || tensor.from_drive;
    return tensor.proof == Tensor::Proof::header;
  }

  // Whether `memory` has what was stored. For what are_to_be_seen() is true of.
  bool hold(const Tensor& tensor, const std::byte* memory) {
    if (tensor.proof == Tensor::Proof::header) return header_sum(memory) == tensor.sum;
    return sum_of(tensor, memory) == tensor.sum;
  }

  // The same of a tensor that is stored as it is, with a copy of it to tensor.to on the way.
  bool hold_copy(const Tensor& tensor, const std::byte* memory) {
    if (are_to_be_seen(tensor)) {
      count(tensor.bytes);
      return copy_and_sum(tensor.to, memory, tensor.bytes, tensor.id) == tensor.sum;
    }
    std::memcpy(tensor.to, memory, tensor.bytes);
    return true;
  }

  // The same part by part, each a multiple of sum_piece_bytes but for the last: `memory` has `bytes` from
  // `at` on. *sum begins as the tensor's number, and must be tensor.sum in the end.
  void add_part(const Tensor& tensor, const std::byte* memory, std::uint64_t at, std::uint64_t bytes,
                std::uint64_t* sum) {
    if (tensor.proof == Tensor::Proof::header) {
      if (at == 0) *sum = header_sum(memory);
      return;
    }
    *sum = stored_sum(memory, bytes, *sum);
    count(bytes);
  }

  // What somebody else summed.
  void count(std::uint64_t bytes) { summed_bytes_ += bytes; }
  std::uint64_t summed_bytes() const { return summed_bytes_; }

 private:
  bool has_header(const Tensor& tensor) const {
    return tensor.codec != compression::Codec::raw && !everything_;
  }
  std::uint64_t sum_of(const Tensor& tensor, const std::byte* memory) {
    count(tensor.stored_bytes);
    return stored_sum(memory, tensor.stored_bytes, tensor.id);
  }
  static void set(Tensor& tensor, Tensor::Proof proof, std::uint64_t sum) {
    tensor.proof = proof;
    tensor.sum = sum;
  }

  bool everything_ = false;
  std::atomic<std::uint64_t> summed_bytes_ = 0;
};

}  // namespace terrace::liballoc::offload
