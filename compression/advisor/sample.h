// What a tensor looks like to the codecs, from under 1% of it (3% below 256 KiB of fp32): how many zeros, how
// they cluster, what its values share.
//
// The elements are divided into k strata of the same size; in each, one piece of 64 consecutive elements
// (what one word of a mask stands for) is read at a place drawn by a hash of seed and stratum. Of small
// tensors that would be few places, so there a piece has 16 elements. Activations differ by channel, and a
// channel is a contiguous stretch, so k pieces far apart see many channels where one stretch of k pieces
// would see one or two. The standard error comes from the squared differences of neighbouring strata, as for
// systematic samples (Cochran, Sampling Techniques, section 8.11): slow changes over the tensor do not count,
// strata catch them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/element.h"

namespace terrace::compression {

inline constexpr std::size_t sample_word = 64;    // elements
inline constexpr std::size_t sample_share = 128;  // one element in so many at most: 0.8%
// Unless that would be fewer than so many pieces: 1% of 64 KiB is eight places, and what they say of a
// frame's size was off by 11% at the median; 32 are off by 4%.
inline constexpr std::uint64_t sample_least = 32;
inline constexpr std::uint64_t sample_share_small = 32;  // one element in so many at most, then
inline constexpr std::size_t sample_most =
    512;  // pieces; at s = 0.62 with runs of 8 an error of half a point

// Shares and rates of elements unless said otherwise. `elements` is 0 where nothing is known.
struct Sample {
  std::uint64_t elements = 0;  // that were looked at
  double sparsity = 0;         // share that is all zero bits
  double standard_error = 1;   // of `sparsity`
  double zero_words = 0;       // share of the words of 64 without a value
  double full_words = 0;       // share of the words of 64 without a zero
  double runs = 0;             // runs of values, per element
  double value_bits = 0;       // what zvc_exp would store of a value, on average over groups of 1024 elements

  bool known() const { return elements > 0; }
  double density() const { return 1 - sparsity; }
};

// Reads at most one element in sample_share (small content: in sample_share_small), and nothing of content
// with fewer than 16 sample_share elements, which gives an unknown sample. Another seed looks at other
// places.
Sample sample_content(ElementType type, std::span<const std::byte> content, std::uint64_t seed);

// From a producer's count (a ReLU kernel knows it for free). Assumes zero runs of 7, as measured networks
// have (Cavigelli et al., EBPC, 2019), and values of which zvc_exp drops nothing.
Sample sample_from_counts(ElementType type, std::uint64_t elements, std::uint64_t non_zero);

// Both of one tensor or of two that are alike, weighted by their standard errors.
Sample combine(const Sample& a, const Sample& b);

}  // namespace terrace::compression
