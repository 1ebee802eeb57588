#include "liballoc/paging/transfers/run_codec.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "compression/advisor/advisor.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

using compression::Codec;
using compression::ElementType;

constexpr std::size_t buffer_bytes = RunFrame::buffer_bytes;
constexpr unsigned all_buffers = (1U << RunCodec::buffers) - 1;

constexpr Codec codec_of(Compression forced) {
  switch (forced) {
    case Compression::zvc:
      return Codec::zvc;
    case Compression::zvc_exp:
      return Codec::zvc_exp;
    case Compression::rle:
      return Codec::rle;
    case Compression::csr8:
      return Codec::csr8;
    default:
      return Codec::raw;
  }
}

// What lies in memory has no type; floating-point data of each width look like none of the others.
constexpr ElementType likely_types[] = {ElementType::f32, ElementType::bf16, ElementType::f16,
                                        ElementType::f64};
constexpr std::uint32_t known_runs = 4096;  // of which the advisor keeps a history

// Before the first frame that is kept in DRAM: a copy.
compression::TimeModel copying() { return compression::TimeModel{{2'000, 0.15}}; }

struct Place {
  compression::History history;
  ElementType element = ElementType::f32;
  std::uint16_t until_typed = 0;  // decisions until the type is looked at again
};

// What a byte takes, in the mean over some 64 transfers. Single times say little of a disk that a quota
// throttles, or that collects garbage: it takes many in no time, and then none for a while.
class Pace {
 public:
  // Counts the transfer in; what it would have taken at that pace.
  double smooth(std::uint32_t bytes, std::uint64_t ns) {
    constexpr double kept = 1 - 1.0 / 64;
    bytes_ = kept * bytes_ + bytes;
    ns_ = kept * ns_ + static_cast<double>(ns);
    return of(bytes);
  }
  // 0 before the first one.
  double of(std::uint32_t bytes) const { return bytes_ > 0 ? bytes * (ns_ / bytes_) : 0; }

 private:
  double bytes_ = 0;
  double ns_ = 0;
};

// Of the tier's time one way, the share that the job waits for. All of it until more is known.
class Exposure {
 public:
  void count(std::uint64_t ns, std::uint64_t awaited_ns) {
    constexpr std::uint64_t window_ns = 100'000'000;
    busy_ns_ += ns;
    awaited_ns_ += awaited_ns;
    if (busy_ns_ < window_ns) return;
    share_ += (static_cast<double>(awaited_ns_) / static_cast<double>(busy_ns_) - share_) / 2;
    busy_ns_ = awaited_ns_ = 0;
  }
  double hidden() const { return 1 - share_; }

 private:
  double share_ = 1;
  std::uint64_t busy_ns_ = 0;  // since the share was looked at
  std::uint64_t awaited_ns_ = 0;
};

// The type as which zvc_exp makes the run smallest.
ElementType likely_type(std::span<const std::byte> run) {
  ElementType best = likely_types[0];
  double least = 2;
  for (const ElementType type : likely_types) {
    const auto sample = compression::sample_content(type, run, 1);
    const double fraction = compression::predicted_fraction(Codec::zvc_exp, type, sample, run.size());
    if (fraction >= least) continue;
    least = fraction;
    best = type;
  }
  return best;
}

}  // namespace

struct RunCodec::Choice {
  Codec codec = Codec::raw;
  ElementType element = ElementType::f32;
  compression::Decision decision;
  Place* place = nullptr;
};

struct RunCodec::Memory {
  CodecScratch scratch;
  compression::Link link;
  compression::Shelf shelf{.link = {.out = copying(), .in = copying()},
                           .largest_fraction = double{RunFrame::most_kept_bytes} / run_bytes};
  Pace out, in;  // of the tier
  Exposure exposed_out, exposed_in;
  Pace sum_out;  // of the checksum of a run that is stored as it is
  // Taking a sample of 2 MiB costs a hundredth of moving them: each run is looked at.
  compression::Advisor advisor{
      {.largest_fraction = double{RunFrame::most_stored_bytes} / run_bytes, .longest_interval = 1}};
  Place places[known_runs];
  Choice choices[buffers];  // for what is being compressed into each
};

int RunCodec::use(Compression compression) {
  if (compression == compression_) return 0;
  if (compression != Compression::off && memory_ == nullptr) {
    static_assert(sizeof(Memory) <= run_bytes &&
                  buffers * buffer_bytes + sizeof(Memory) <= memory_runs * run_bytes);
    const std::size_t bytes = buffers * buffer_bytes + sizeof(Memory);
    auto* area = static_cast<std::byte*>(os::map_anonymous(bytes, PROT_READ | PROT_WRITE));
    if (area == nullptr) return ENOMEM;
    buffers_ = area;
    memory_ = new (area + buffers * buffer_bytes) Memory;
    free_buffers_ = all_buffers;
  }
  compression_ = compression;
  release_buffers();
  return 0;
}

void RunCodec::give_back(unsigned buffer) {
  if (buffer == no_buffer) return;
  free_buffers_ |= 1U << buffer;
  release_buffers();
}

// The buffers of a codec that is off, once none is being written from.
void RunCodec::release_buffers() {
  if (is_on() || memory_ == nullptr || free_buffers_ != all_buffers) return;
  os::advise(buffers_, buffers * buffer_bytes, MADV_DONTNEED);
}

void RunCodec::publish_counts() {
  for (int i = 0; i < TERRACE_CODECS; ++i) {
    statistics_[i].content_bytes += recent_[i].content_bytes;
    statistics_[i].frame_bytes += recent_[i].frame_bytes;
    statistics_[i].compress_ns += recent_[i].compress_ns;
    statistics_[i].decompress_ns += recent_[i].decompress_ns;
    recent_[i] = {};
  }
}

void RunCodec::wrote(std::uint32_t bytes, std::uint64_t ns, std::uint64_t awaited_ns) {
  if (memory_ == nullptr) return;
  memory_->exposed_out.count(ns, awaited_ns);
  memory_->link.out.observe({.bytes = bytes}, memory_->out.smooth(bytes, ns));
}

void RunCodec::read(std::uint32_t bytes, std::uint64_t ns, std::uint64_t awaited_ns) {
  if (memory_ == nullptr) return;
  memory_->exposed_in.count(ns, awaited_ns);
  memory_->link.in.observe({.bytes = bytes}, memory_->in.smooth(bytes, ns));
}

// The job's processors are busy, and what the codec takes of them it takes from the job: its time counts in
// full, as does that of the checksum which it makes needless. Of the tier's time only that counts for which
// the job waits.
compression::Transfer RunCodec::transfer() const {
  const compression::Work run{.bytes = run_bytes};
  return {.schedule = compression::Schedule::overlapped,
          .hidden_out_ns = memory_->exposed_out.hidden() * memory_->link.out.predict_ns(run),
          .hidden_in_ns = memory_->exposed_in.hidden() * memory_->link.in.predict_ns(run),
          .raw_out_ns = memory_->sum_out.of(run_bytes)};
}

void RunCodec::kept(std::uint32_t bytes, std::uint64_t ns) {
  if (memory_ != nullptr) memory_->shelf.link.out.observe({.bytes = bytes}, static_cast<double>(ns));
}

void RunCodec::fetched(std::uint32_t bytes, std::uint64_t ns) {
  if (memory_ != nullptr) memory_->shelf.link.in.observe({.bytes = bytes}, static_cast<double>(ns));
}

void RunCodec::summed(std::uint64_t ns) {
  if (memory_ != nullptr) memory_->sum_out.smooth(run_bytes, ns);
}

CodecScratch* RunCodec::scratch() { return memory_ != nullptr ? &memory_->scratch : nullptr; }

bool RunCodec::begin_encoding(const std::byte* run, std::uint32_t number, std::uint32_t generation,
                              bool may_be_kept, RunEncoding* encoding) {
  if (!is_on() || !has_free_buffer()) return false;
  const Choice choice = choose({run, run_bytes}, number, may_be_kept);
  if (choice.codec == Codec::raw) return false;
  const auto buffer = static_cast<unsigned>(__builtin_ctz(free_buffers_));
  free_buffers_ &= ~(1U << buffer);
  memory_->choices[buffer] = choice;
  *encoding = {.run = run,
               .buffer = buffers_ + buffer * buffer_bytes,
               .codec = choice.codec,
               .element = choice.element,
               .generation = generation,
               .number = buffer};
  return true;
}

RunCodec::Choice RunCodec::choose(std::span<const std::byte> run, std::uint32_t number, bool may_be_kept) {
  constexpr std::uint16_t typed_for = 16;
  Place& place = memory_->places[number % known_runs];
  if (place.until_typed == 0) {
    place.element = likely_type(run);
    place.until_typed = typed_for;
  }
  --place.until_typed;
  Choice choice{.codec = codec_of(compression_), .element = place.element, .decision = {}, .place = &place};
  if (compression_ != Compression::automatic) return choice;
  const compression::Tensor tensor{.element = place.element, .bytes = run.size(), .content = run};
  choice.decision = memory_->advisor.decide(place.history, tensor, transfer(), memory_->link,
                                            may_be_kept ? &memory_->shelf : nullptr);
  choice.codec = choice.decision.codec;
  return choice;
}

bool RunCodec::end_encoding(const RunEncoding& encoding) {
  const Choice& choice = memory_->choices[encoding.number];
  if (choice.decision.codec != Codec::raw)  // it was asked for one
    memory_->advisor.compressed(choice.place->history, choice.decision, encoding.frame_bytes,
                                static_cast<double>(encoding.ns));
  auto& counts = recent_[static_cast<int>(encoding.codec) - 1];
  counts.compress_ns += encoding.ns;
  if (encoding.bytes == 0) {
    give_back(encoding.number);
    return false;
  }
  counts.content_bytes += run_bytes;
  counts.frame_bytes += encoding.bytes;
  return true;
}

void RunCodec::end_decoding(const RunDecoding& decoding) {
  if (!decoding.is_intact) return;
  recent_[static_cast<int>(decoding.codec) - 1].decompress_ns += decoding.ns;
  memory_->advisor.decompressed(decoding.codec, decoding.element, run_bytes, decoding.frame_bytes,
                                static_cast<double>(decoding.ns));
}

}  // namespace terrace::liballoc
