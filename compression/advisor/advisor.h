// Whether to compress a tensor on its way out of a tier, and by which codec.
//
// CSWAP's selection (Chen et al., CLUSTER 2021) with what it leaves out: sparsity comes from a sample of
// under 1% or from the producer's count; codec times come from what codecs took on this machine, not from a
// profiling run; what is hidden by compute is not compressed; a decision once made stays until another has
// earned its place; and sparsity is looked at again as it drifts over training. All of it with bounded cost:
// trying what has not been tried takes half a percent of the time that moving everything raw would, after a
// start of fifteen tensors.
//
//   decide()  ->  compress() and move, or move raw  ->  compressed(), Link::out.observe()
//                                  … later: move back, decompress()  ->  Link::in.observe(), decompressed()
//
// An Advisor has the codecs' times on one engine (a CPU with so many threads, a GPU); a Link those of one way
// between tiers; a History what is known of one class of tensors that are alike: one layer's output, one
// allocation site. Objects of fixed size (an Advisor some 300 KiB): nothing is allocated, no clock read, no
// lock taken. Whoever shares one between threads holds a lock of his own; decide() was
// measured to take 0.6 us, and when it samples 10 us more for 2 MiB, 140 us for 64 MiB that are in no cache.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <span>

#include "compression/advisor/fraction.h"
#include "compression/advisor/payoff.h"
#include "compression/advisor/sample.h"
#include "compression/advisor/time_model.h"

namespace terrace::compression {

inline constexpr int candidate_count = static_cast<int>(std::size(predictable_codecs));

// Before the first observation: an NVMe drive of 2 GB/s.
struct Link {
  TimeModel out{{20'000, 0.5}};
  TimeModel in{{20'000, 0.5}};
};

// Frames that are small enough stay nearer than at the end of the link: in compressed memory. What is on the
// link wears a drive and stands in the way of other transfers, so that all of its time counts then, hidden or
// not.
struct Shelf {
  Link link;
  double largest_fraction = 0;
};

struct AdvisorOptions {
  double margin = 0.01;                 // a gain below it is none
  double evidence = 0.1;                // gains beyond the margin that must add up, in a row, before a switch
  double exploration = 0.005;           // share of the time of moving raw that may go into trying codecs
  double first_tries = 15;              // tensors' raw time on top of it, to get to know the codecs at all
  double largest_fraction = 0.99;       // a frame above it is not kept: the tensor moves raw after all
  std::uint32_t longest_interval = 64;  // decisions between two samples of tensors that do not change
  std::uint32_t stale_after = 200;      // decisions on a class until a codec twice as slow is tried again
  std::uint64_t seed = 1;               // of the places that are sampled
};

// A tensor to decide on. Content that the CPU cannot read is left empty; then only `non_zero` says how sparse
// it is.
struct Tensor {
  static constexpr std::uint64_t not_counted = UINT64_MAX;

  ElementType element = ElementType::f32;
  std::uint64_t bytes = 0;
  std::span<const std::byte> content = {};
  std::uint64_t non_zero = not_counted;
};

enum class Reason : std::uint8_t {
  unknown,       // neither sample nor count: raw
  dense,         // no codec makes it smaller
  hidden,        // compute hides the transfer: nothing to gain
  raw_faster,    // the codecs take longer than they save
  codec_faster,  // the codec saves more than it takes
  kept,          // another leads, but not by enough for long enough
  explored,      // tried to learn its speed
};
const char* describe(Reason reason);

struct Candidate {
  Codec codec = Codec::raw;
  double fraction = 1;  // predicted bytes on the link by bytes of content
  Times times;
  double total_ns = 0;         // what the job waits for, by the pay-off rule
  std::uint32_t observed = 0;  // how often compressing was measured at about this size
};

struct Decision {
  Codec codec = Codec::raw;
  Reason reason = Reason::unknown;
  bool sampled = false;  // the tensor was looked at for this decision
  ElementType element = ElementType::f32;
  std::uint64_t bytes = 0;
  double sparsity = 0;
  double standard_error = 1;
  std::array<Candidate, candidate_count> candidates;  // in the order of predictable_codecs: raw comes first

  const Candidate& candidate(Codec of) const;
  const Candidate& chosen() const { return candidate(codec); }
};

// What is known of a class of tensors. Belongs to the caller; 208 bytes.
class History {
 public:
  const Sample& estimate() const { return estimate_; }
  std::uint64_t samples() const { return samples_; }

 private:
  friend class Advisor;
  Sample estimate_;
  double correction_[codec_count] = {1, 1, 1, 1,
                                     1, 1, 1};  // observed fraction by predicted, where not from sparsity
  std::uint64_t samples_ = 0;
  std::uint64_t decisions_ = 0;
  std::uint64_t tried_[codec_count] = {};  // at which decision last
  std::uint32_t interval_ = 1;             // between samples
  std::uint32_t until_sample_ = 0;         // decisions
  bool decided_ = false;
  Codec current_ = Codec::raw;
  Codec challenger_ = Codec::raw;
  double evidence_ = 0;  // the challenger's gains beyond the margin
};

class Advisor {
 public:
  explicit Advisor(const AdvisorOptions& options = {});

  // `shelf`: there is one, and it has room.
  Decision decide(History& history, const Tensor& tensor, const Transfer& transfer, const Link& link,
                  const Shelf* shelf = nullptr);

  // What came of it: the frame's bytes and the time that compress() took. Also right after compressing
  // without having asked; `decision` is the last one on this tensor.
  void compressed(History& history, const Decision& decision, std::uint64_t frame_bytes, double ns);
  // Coming back: the codec, element type and sizes of the frame, and the time that decompress() took.
  void decompressed(Codec codec, ElementType element, std::uint64_t content_bytes, std::uint64_t frame_bytes,
                    double ns);

  double predict_compress_ns(Codec codec, ElementType element, Work work) const;
  double predict_decompress_ns(Codec codec, ElementType element, Work work) const;

 private:
  struct CodecTimes {
    TimeModel compress, decompress;
  };
  bool look(History& history, const Tensor& tensor);
  void learn_sample(History& history, const Sample& fresh) const;
  Candidate weigh(Codec codec, const History& history, const Tensor& tensor, const Transfer& transfer,
                  const Link& link, const Shelf* shelf) const;
  void weigh_all(const History& history, Decision& decision, const Tensor& tensor, const Transfer& transfer,
                 const Link& link, const Shelf* shelf) const;
  bool is_kept(const Candidate& candidate) const { return candidate.fraction < options_.largest_fraction; }
  bool fits(const Candidate& candidate, const Shelf& shelf) const;
  void choose(History& history, Decision& decision, const Transfer& transfer);
  Codec settle(History& history, const Decision& decision, Codec best) const;
  bool worth_trying(const History& history, const Decision& decision, const Candidate& candidate,
                    const Transfer& transfer) const;
  Codec explore(const History& history, const Decision& decision, Codec settled, const Transfer& transfer);
  void learn_fraction(History& history, const Decision& decision, double sparsity, double fraction) const;
  CodecTimes& times(Codec codec, ElementType element);
  const CodecTimes& times(Codec codec, ElementType element) const;

  AdvisorOptions options_;
  std::uint64_t decisions_ = 0;
  double allowance_ns_ = 0;  // what may still be spent on trying
  CodecTimes times_[codec_count][element_type_count];
};

}  // namespace terrace::compression
