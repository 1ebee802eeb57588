#include "liballoc/paging/transfers/run_codec.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "compression/advisor/advisor.h"
#include "compression/bytes.h"
#include "liballoc/base/checksum.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

using compression::block_bytes;
using compression::Codec;
using compression::ElementType;
using compression::Entry;
using compression::Header;

constexpr std::size_t page = os::page_bytes;
constexpr std::size_t blocks = run_bytes / block_bytes;
// Where a run's frame has its payload: the header and the table lie before it.
constexpr std::size_t head_bytes = compression::header_bytes + blocks * compression::entry_bytes;
constexpr std::size_t buffer_bytes = (run_bytes + head_bytes + page - 1) / page * page;
// A frame that saves less is not worth the time that bringing it back takes.
constexpr std::size_t most_stored_bytes = run_bytes / 16 * 15;
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

struct RunCodec::Memory {
  alignas(64) std::byte held[2][block_bytes + compression::payload_unit];
  compression::Link link;
  Pace out, in;  // of the tier
  Exposure exposed_out, exposed_in;
  Pace sum_out, sum_in;  // of the checksum of a run that is stored as it is
  compression::Workspace workspace;
  // Taking a sample of 2 MiB costs a hundredth of moving them: each run is looked at.
  compression::Advisor advisor{
      {.largest_fraction = double{most_stored_bytes} / run_bytes, .longest_interval = 1}};
  Place places[known_runs];
};

struct RunCodec::Choice {
  Codec codec = Codec::raw;
  ElementType element = ElementType::f32;
  compression::Decision decision;
  Place* place = nullptr;
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
          .raw_out_ns = memory_->sum_out.of(run_bytes),
          .raw_in_ns = memory_->sum_in.of(run_bytes)};
}

RunCodec::Stored RunCodec::encode(const std::byte* run, std::uint32_t number, std::uint32_t generation) {
  Stored stored{.data = run};
  if (is_on()) {
    const std::span<const std::byte> content(run, run_bytes);
    const Choice choice = choose(content, number);
    if (choice.codec != Codec::raw && compress(content, choice, &stored, generation)) return stored;
  }
  const std::uint64_t start = os::thread_ns();
  stored.sum = checksum(run, run_bytes, generation);
  if (memory_ != nullptr) memory_->sum_out.smooth(run_bytes, os::thread_ns() - start);
  return stored;
}

RunCodec::Choice RunCodec::choose(std::span<const std::byte> run, std::uint32_t number) {
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
  choice.decision = memory_->advisor.decide(place.history, tensor, transfer(), memory_->link);
  choice.codec = choice.decision.codec;
  return choice;
}

// The frame's own checksums guard every byte of it; the header has the table's, so that the header's says
// which frame it is.
bool RunCodec::compress(std::span<const std::byte> run, const Choice& choice, Stored* stored,
                        std::uint32_t generation) {
  const auto buffer = static_cast<unsigned>(__builtin_ctz(free_buffers_));
  std::byte* frame = buffers_ + buffer * buffer_bytes;
  const std::uint64_t start = os::thread_ns();
  const auto made = compression::compress(
      run, {frame, buffer_bytes}, {.codec = choice.codec, .element = choice.element}, memory_->workspace);
  const std::uint64_t ns = os::thread_ns() - start;
  if (compression_ == Compression::automatic)
    memory_->advisor.compressed(choice.place->history, choice.decision, made.bytes, static_cast<double>(ns));
  const std::size_t bytes = compression::round_up(made.bytes, page);
  auto& counts = recent_[static_cast<int>(choice.codec) - 1];
  counts.compress_ns += ns;
  if (made.error != compression::FrameError::none || bytes > most_stored_bytes) return false;
  std::memset(frame + made.bytes, 0, bytes - made.bytes);
  free_buffers_ &= ~(1U << buffer);
  *stored = {.data = frame,
             .bytes = static_cast<std::uint32_t>(bytes),
             .sum = checksum(frame, compression::header_bytes, generation),
             .buffer = buffer};
  counts.content_bytes += run_bytes;
  counts.frame_bytes += bytes;
  return true;
}

bool RunCodec::decode(std::byte* frame, std::uint32_t bytes, std::uint64_t sum, std::uint32_t generation) {
  const std::uint64_t start = os::thread_ns();
  if (bytes == run_bytes) {
    const bool intact = checksum(frame, run_bytes, generation) == sum;
    if (memory_ != nullptr) memory_->sum_in.smooth(run_bytes, os::thread_ns() - start);
    return intact;
  }
  std::byte head[head_bytes];
  Header header;
  std::memcpy(head, place(frame, bytes), head_bytes);
  if (checksum(head, compression::header_bytes, generation) != sum) return false;
  if (compression::read_header(head, header) != compression::FrameError::none) return false;
  if (header.content_bytes != run_bytes || header.payload_offset != head_bytes ||
      header.frame_bytes() > bytes)
    return false;
  if (compression::check_table(head, header) != compression::FrameError::none) return false;
  if (!decode_in_place(frame + run_bytes - bytes + head_bytes, head, header, frame)) return false;
  const std::uint64_t ns = os::thread_ns() - start;
  recent_[static_cast<int>(header.codec) - 1].decompress_ns += ns;
  memory_->advisor.decompressed(header.codec, header.element, run_bytes, header.frame_bytes(),
                                static_cast<double>(ns));
  return true;
}

// Block by block from the front. A block whose bytes begin before its content's end is taken aside before the
// block in front of it is written; no earlier one reaches it. (Block i ends at (i + 1) x 64 KiB; the bytes of
// block i + 2 begin no earlier than that: behind them lie their own and the later blocks' at most as many as
// their content, and less than a page of padding.)
bool RunCodec::decode_in_place(const std::byte* payload, const std::byte* head, const Header& header,
                               std::byte* content) {
  const compression::BlockCodec* codec = compression::own_codecs(header.codec);
  if (codec == nullptr) return false;
  const std::span<const std::byte> table(head, head_bytes);
  const auto bytes_of = [&](std::size_t i) -> const std::byte* {
    const Entry entry = compression::read_entry(table, i);
    const std::byte* const bytes = payload + entry.offset();
    if (bytes >= content + (i + 1) * block_bytes) return bytes;
    std::memcpy(memory_->held[i % 2], bytes, entry.extent());
    return memory_->held[i % 2];
  };
  const std::byte* next = bytes_of(0);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::byte* const bytes = next;
    if (i + 1 < blocks) next = bytes_of(i + 1);
    const Entry entry = compression::read_entry(table, i);
    if (!compression::decode_block(compression::kernels(), *codec, header.element, entry,
                                   {bytes, entry.extent()}, {content + i * block_bytes, block_bytes},
                                   memory_->workspace))
      return false;
  }
  return true;
}

}  // namespace terrace::liballoc
