#include "compression/advisor/fraction.h"

#include <algorithm>
#include <iterator>

#include "compression/frame.h"

namespace terrace::compression {
namespace {

double bits_of(ElementType type) { return 8.0 * static_cast<double>(width_of(type)); }

// Bits of mask per element: all of it, or a bit for each word and then the words that are not zero.
double mask_bits(const Sample& sample) { return std::min(1.0, 1.0 / 64 + 1 - sample.zero_words); }

// Two bytes for each run of values, and one pair for each 255 elements of what never ends.
double rle_pair_bits(const Sample& sample) {
  return 16 * (sample.runs + (sample.zero_words + sample.full_words) / 255);
}

constexpr double group_header_bits = 32.0 / 1024;
constexpr double row_bits = 16.0 / 256;

// What the codec stores besides the values, and of each value; in bits per element.
double overhead_bits(Codec codec, const Sample& sample) {
  switch (codec) {
    case Codec::zvc:
      return mask_bits(sample);
    case Codec::zvc_exp:
      return mask_bits(sample) + group_header_bits;
    case Codec::rle:
      return rle_pair_bits(sample);
    case Codec::csr8:
      return row_bits;
    default:
      return 0;
  }
}

double stored_bits(Codec codec, ElementType type, const Sample& sample) {
  if (codec == Codec::zvc_exp) return sample.value_bits;
  return codec == Codec::csr8 ? bits_of(type) + 8 : bits_of(type);
}

double frame_overhead(std::uint64_t content_bytes) {
  if (content_bytes == 0) return 0;
  return static_cast<double>(payload_offset_for(std::min(content_bytes, max_content_bytes), 4)) /
         static_cast<double>(std::min(content_bytes, max_content_bytes));
}

bool predictable(Codec codec) {
  return std::find(std::begin(predictable_codecs), std::end(predictable_codecs), codec) !=
         std::end(predictable_codecs);
}

}  // namespace

bool too_dense(ElementType type, const Sample& sample) { return sample.sparsity < 1 / bits_of(type); }

double predicted_fraction(Codec codec, ElementType type, const Sample& sample, std::uint64_t content_bytes) {
  if (codec == Codec::raw) return 1;
  const double overhead = frame_overhead(content_bytes);
  const bool dense = codec != Codec::zvc_exp && too_dense(type, sample);
  if (!predictable(codec) || !sample.known() || dense) return 1 + overhead;
  const double bits = overhead_bits(codec, sample) + sample.density() * stored_bits(codec, type, sample);
  return std::min(1.0, bits / bits_of(type)) + overhead;
}

double sparsity_of_frame(Codec codec, ElementType type, const Sample& sample, std::uint64_t content_bytes,
                         std::uint64_t frame_bytes) {
  if ((codec != Codec::zvc && codec != Codec::csr8) || content_bytes == 0) return -1;
  const double fraction = static_cast<double>(frame_bytes) / static_cast<double>(content_bytes);
  const double body = fraction - frame_overhead(content_bytes);
  if (body >= 0.999) return -1;
  const double density =
      (body * bits_of(type) - overhead_bits(codec, sample)) / stored_bits(codec, type, sample);
  return 1 - std::clamp(density, 0.0, 1.0);
}

}  // namespace terrace::compression
