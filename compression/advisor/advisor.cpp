#include "compression/advisor/advisor.h"

#include <algorithm>
#include <cmath>

namespace terrace::compression {
namespace {

// Nanoseconds a byte of content before anything was measured: some MiB with half their elements zero on one
// core with AVX-512, rounded. Rather too fast than too slow: what disappoints is known at once, what is never
// tried never.
struct CodecPrior {
  double compress_ns, decompress_ns;
};
constexpr CodecPrior priors[codec_count] = {{0.1, 0.1}, {0.1, 0.1}, {0.12, 0.1}, {0.4, 0.2},
                                            {0.2, 0.2}, {2.0, 0.7}, {2.5, 1.2}};
constexpr double call_ns = 1000;

constexpr double smaller = 0.99;        // predicted above it, a frame is taken for raw
constexpr double frame_is_raw = 0.999;  // all of a frame's blocks were stored raw
constexpr double nothing_to_gain_ns = 1;
constexpr double hopeful = 0.2;        // of the predicted time a codec measured under three times may take
constexpr double hopeful_again = 0.6;  // the same for one that was measured more often
constexpr double shortest_pause = 4;   // decisions between two tries of a codec
constexpr double doubtful = 2;         // how much slower they may be
constexpr double doubtful_again = 1.25;
constexpr std::uint32_t tried_enough = 3;  // measurements; one alone may have been preempted
constexpr double same_sparsity = 0.01;     // besides two standard errors: what batches differ by
constexpr double aging = 1.5;              // of an estimate's standard error from one sample to the next
constexpr double exact_error = 0.001;      // of a sparsity that a frame's size told
constexpr double departs = 0.05;           // of the observed fraction from the predicted one
constexpr double correction_weight = 0.3;

// Blocks with too few zeros are stored raw by most codecs: what is timed then is raw's.
Codec encoded_as(Codec codec, ElementType element, const Sample& sample) {
  return too_dense(element, sample) && codec != Codec::zvc_exp ? Codec::raw : codec;
}

Codec decoded_as(Codec codec, double fraction) { return fraction >= frame_is_raw ? Codec::raw : codec; }

double share_of(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

double scaled(double bytes) { return std::clamp(bytes, 0.0, 1e18); }

double link_ns(const TimeModel& link, std::uint64_t bytes, double fraction) {
  const double moved = scaled(static_cast<double>(bytes) * fraction);
  return link.predict_ns({static_cast<std::uint64_t>(moved), 1});
}

double with_codec_times(const Transfer& transfer, Times times, double factor) {
  times.compress_ns *= factor;
  times.decompress_ns *= factor;
  return cost_ns(transfer, times);
}

const Candidate& fastest(const Decision& decision) {
  return *std::min_element(decision.candidates.begin(), decision.candidates.end(),
                           [](const Candidate& a, const Candidate& b) { return a.total_ns < b.total_ns; });
}

// What the job waits for a tensor's bytes on the link, when they go raw.
double waited_for_link_ns(const Transfer& transfer, const Candidate& raw) {
  return raw.total_ns -
         cost_ns(transfer, {.compress_ns = raw.times.compress_ns, .decompress_ns = raw.times.decompress_ns});
}

double gain(double from_ns, double to_ns) { return from_ns > 0 ? 1 - to_ns / from_ns : 0; }

Reason reason_of(Codec best, Codec settled) {
  if (settled != best) return Reason::kept;
  return settled == Codec::raw ? Reason::raw_faster : Reason::codec_faster;
}

}  // namespace

const char* describe(Reason reason) {
  switch (reason) {
    case Reason::unknown:
      return "nothing is known of its zeros";
    case Reason::dense:
      return "no codec makes it smaller";
    case Reason::hidden:
      return "compute hides the transfer";
    case Reason::raw_faster:
      return "the codecs take longer than they save";
    case Reason::codec_faster:
      return "it saves more than it takes";
    case Reason::kept:
      return "another leads by too little so far";
    case Reason::explored:
      return "tried to learn its speed";
  }
  return "unknown reason";
}

const Candidate& Decision::candidate(Codec of) const {
  for (const Candidate& one : candidates)
    if (one.codec == of) return one;
  return candidates.front();
}

Advisor::Advisor(const AdvisorOptions& options) : options_(options) {
  for (int codec = 0; codec < codec_count; ++codec)
    for (CodecTimes& times : times_[codec]) {
      times.compress = TimeModel({call_ns, priors[codec].compress_ns});
      times.decompress = TimeModel({call_ns, priors[codec].decompress_ns});
    }
}

const Advisor::CodecTimes& Advisor::times(Codec codec, ElementType element) const {
  return times_[static_cast<int>(codec)][static_cast<int>(element)];
}

Advisor::CodecTimes& Advisor::times(Codec codec, ElementType element) {
  return times_[static_cast<int>(codec)][static_cast<int>(element)];
}

double Advisor::predict_compress_ns(Codec codec, ElementType element, Work work) const {
  return times(codec, element).compress.predict_ns(work);
}

double Advisor::predict_decompress_ns(Codec codec, ElementType element, Work work) const {
  return times(codec, element).decompress.predict_ns(work);
}

// Returns whether the content was sampled. A count replaces the sampled sparsity, not what the values look
// like.
bool Advisor::look(History& history, const Tensor& tensor) {
  bool sampled = false;
  if (history.until_sample_ > 0) {
    --history.until_sample_;
  } else if (!tensor.content.empty()) {
    const Sample fresh = sample_content(tensor.element, tensor.content, options_.seed + decisions_);
    if ((sampled = fresh.known())) learn_sample(history, fresh);
  }
  if (tensor.non_zero == Tensor::not_counted) return sampled;
  const Sample counted =
      sample_from_counts(tensor.element, tensor.bytes / width_of(tensor.element), tensor.non_zero);
  if (!history.estimate_.known()) history.estimate_ = counted;
  history.estimate_.sparsity = counted.sparsity;
  history.estimate_.standard_error = counted.standard_error;
  return sampled;
}

void Advisor::learn_sample(History& history, const Sample& fresh) const {
  Sample& estimate = history.estimate_;
  const double error = std::hypot(estimate.standard_error, fresh.standard_error);
  const bool agrees =
      estimate.known() && std::abs(fresh.sparsity - estimate.sparsity) <= 2 * error + same_sparsity;
  estimate.standard_error = std::max(aging * estimate.standard_error, same_sparsity);
  estimate = agrees ? combine(estimate, fresh) : fresh;
  history.interval_ = agrees ? std::min(2 * history.interval_, options_.longest_interval) : 1;
  history.until_sample_ = history.interval_ - 1;
  ++history.samples_;
  if (!agrees) std::fill(std::begin(history.correction_), std::end(history.correction_), 1.0);
}

Candidate Advisor::weigh(Codec codec, const History& history, const Tensor& tensor, const Transfer& transfer,
                         const Link& link, const Shelf* shelf) const {
  const Sample& estimate = history.estimate_;
  const double predicted = predicted_fraction(codec, tensor.element, estimate, tensor.bytes);
  Candidate one;
  one.codec = codec;
  one.fraction = predicted < smaller ? predicted * history.correction_[static_cast<int>(codec)] : predicted;
  const bool moves_raw = codec == Codec::raw || !is_kept(one);
  const Link& way = shelf != nullptr && fits(one, *shelf) ? shelf->link : link;
  one.times.out_ns = link_ns(way.out, tensor.bytes, moves_raw ? 1 : one.fraction);
  one.times.in_ns = link_ns(way.in, tensor.bytes, moves_raw ? 1 : one.fraction);
  if (moves_raw) {
    one.times.compress_ns = transfer.raw_out_ns;
    one.times.decompress_ns = transfer.raw_in_ns;
  }
  if (codec != Codec::raw) {
    const Work work{tensor.bytes, one.fraction};
    const Codec encoded = encoded_as(codec, tensor.element, estimate);
    one.times.compress_ns += predict_compress_ns(encoded, tensor.element, work);
    if (!moves_raw)
      one.times.decompress_ns = predict_decompress_ns(decoded_as(codec, one.fraction), tensor.element, work);
    one.observed = times(encoded, tensor.element).compress.observations(tensor.bytes);
  }
  one.total_ns = cost_ns(transfer, one.times);
  return one;
}

bool Advisor::fits(const Candidate& candidate, const Shelf& shelf) const {
  return candidate.codec != Codec::raw && is_kept(candidate) && candidate.fraction <= shelf.largest_fraction;
}

void Advisor::weigh_all(const History& history, Decision& decision, const Tensor& tensor,
                        const Transfer& transfer, const Link& link, const Shelf* shelf) const {
  for (int i = 0; i < candidate_count; ++i)
    decision.candidates[i] = weigh(predictable_codecs[i], history, tensor, transfer, link, shelf);
}

Decision Advisor::decide(History& history, const Tensor& tensor, const Transfer& transfer, const Link& link,
                         const Shelf* shelf) {
  ++decisions_;
  ++history.decisions_;
  Decision decision;
  decision.sampled = look(history, tensor);
  decision.element = tensor.element;
  decision.bytes = tensor.bytes;
  decision.sparsity = history.estimate_.sparsity;
  decision.standard_error = history.estimate_.standard_error;
  Transfer counted = transfer;
  if (shelf != nullptr) counted.hidden_out_ns = counted.hidden_in_ns = 0;
  weigh_all(history, decision, tensor, counted, link, shelf);
  const bool some_fit =
      std::any_of(decision.candidates.begin(), decision.candidates.end(),
                  [&](const Candidate& one) { return shelf != nullptr && fits(one, *shelf); });
  if (shelf != nullptr && !some_fit) weigh_all(history, decision, tensor, transfer, link, nullptr);
  choose(history, decision, some_fit ? counted : transfer);
  return decision;
}

void Advisor::choose(History& history, Decision& decision, const Transfer& transfer) {
  const Candidate& raw = decision.candidates.front();
  const double tensors = options_.exploration + (decisions_ == 1 ? options_.first_tries : 0);
  allowance_ns_ += tensors * raw.total_ns;
  const bool is_hidden = waited_for_link_ns(transfer, raw) <= nothing_to_gain_ns;
  const bool nothing_smaller = std::none_of(decision.candidates.begin(), decision.candidates.end(),
                                            [this](const Candidate& one) { return is_kept(one); });
  const bool nothing_to_do = nothing_smaller || is_hidden;
  if (!history.estimate_.known() || nothing_to_do) {
    history.decided_ = false;
    decision.reason = !history.estimate_.known() ? Reason::unknown
                      : is_hidden                ? Reason::hidden
                                                 : Reason::dense;
    return;
  }
  const Candidate& best = fastest(decision);
  const Codec lead = gain(raw.total_ns, best.total_ns) > options_.margin ? best.codec : Codec::raw;
  const Codec settled = settle(history, decision, lead);
  decision.codec = explore(history, decision, settled, transfer);
  decision.reason = decision.codec != settled ? Reason::explored : reason_of(lead, settled);
}

// Keeps the current codec until another's gains over it, each less the margin, add up; they do so only in a
// row.
Codec Advisor::settle(History& history, const Decision& decision, Codec best) const {
  const bool first = !history.decided_;
  if (first || best == history.current_ || best != history.challenger_) history.evidence_ = 0;
  history.challenger_ = best;
  history.decided_ = true;
  if (first) history.current_ = best;
  if (best == history.current_) return best;
  const double lead = gain(decision.candidate(history.current_).total_ns, decision.candidate(best).total_ns);
  history.evidence_ = std::max(0.0, history.evidence_ + lead - options_.margin);
  if (history.evidence_ >= options_.evidence) {
    history.current_ = best;
    history.evidence_ = 0;
  }
  return history.current_;
}

// Untried, or not for long; could beat what is settled on if faster than thought; affordable if slower. What
// would cost little more than what is settled on is tried more often: trying it is cheap, and its turn may
// have come.
bool Advisor::worth_trying(const History& history, const Decision& decision, const Candidate& candidate,
                           const Transfer& transfer) const {
  const double settled_ns = decision.chosen().total_ns;
  const double extra = std::max(0.0, candidate.total_ns / std::max(settled_ns, 1.0) - 1);
  const std::uint64_t since = history.decisions_ - history.tried_[static_cast<int>(candidate.codec)];
  const bool proven = candidate.observed >= tried_enough;
  const double pause = std::max<double>(shortest_pause, proven ? extra * options_.stale_after : 0);
  if (!is_kept(candidate)) return false;
  if (static_cast<double>(since) < pause) return false;
  if (with_codec_times(transfer, candidate.times, proven ? hopeful_again : hopeful) >= settled_ns)
    return false;
  return with_codec_times(transfer, candidate.times, proven ? doubtful_again : doubtful) - settled_ns <=
         allowance_ns_;
}

Codec Advisor::explore(const History& history, const Decision& decision, Codec settled,
                       const Transfer& transfer) {
  Decision as_settled = decision;
  as_settled.codec = settled;
  for (const Candidate& one : decision.candidates) {
    if (one.codec == settled || one.codec == Codec::raw || !worth_trying(history, as_settled, one, transfer))
      continue;
    allowance_ns_ -= std::max(0.0, one.total_ns - as_settled.chosen().total_ns);
    return one.codec;
  }
  return settled;
}

void Advisor::learn_fraction(History& history, const Decision& decision, double sparsity,
                             double fraction) const {
  const double predicted = decision.candidate(decision.codec).fraction;
  const double error = departs + 3 * decision.standard_error / predicted;
  if (std::abs(fraction / predicted - 1) > error) {
    history.interval_ = 1;
    history.until_sample_ = 0;
  }
  if (sparsity >= 0) {
    history.estimate_.sparsity = sparsity;
    history.estimate_.standard_error = exact_error;
    return;
  }
  double& correction = history.correction_[static_cast<int>(decision.codec)];
  correction *= std::clamp(1 + correction_weight * (fraction / predicted - 1), 0.5, 2.0);
  correction = std::clamp(correction, 0.25, 4.0);
}

void Advisor::compressed(History& history, const Decision& decision, std::uint64_t frame_bytes, double ns) {
  if (decision.bytes == 0 || decision.codec == Codec::raw) return;
  const double fraction = share_of(frame_bytes, decision.bytes);
  const Codec encoded = encoded_as(decision.codec, decision.element, history.estimate_);
  times(encoded, decision.element).compress.observe({decision.bytes, fraction}, ns);
  history.tried_[static_cast<int>(decision.codec)] = history.decisions_;
  const bool trial = decision.reason == Reason::explored || decision.chosen().observed < tried_enough;
  if (trial && std::isfinite(ns)) allowance_ns_ -= std::max(0.0, ns - decision.chosen().times.compress_ns);
  const double sparsity =
      sparsity_of_frame(decision.codec, decision.element, history.estimate_, decision.bytes, frame_bytes);
  learn_fraction(history, decision, sparsity, fraction);
}

void Advisor::decompressed(Codec codec, ElementType element, std::uint64_t content_bytes,
                           std::uint64_t frame_bytes, double ns) {
  const double fraction = share_of(frame_bytes, content_bytes);
  times(decoded_as(codec, fraction), element).decompress.observe({content_bytes, fraction}, ns);
}

}  // namespace terrace::compression
