// A run's way to the tier and back: what is stored is the run as it is, or a compressed frame of it where the
// advisor finds that this pays (compression/). A frame carries a checksum that is seeded with the generation,
// so that an older version of the same extent is as wrong as a flipped bit.
//
//   evict     run in its staging frame ──compress──► buffer ──write──► extent, as long as the frame
//   restore   extent ──read──► the end of a staging frame ──decompress──► the whole of it
//
// The staging frame keeps the bytes while they are written from the buffer, so a touch takes them back
// without a copy. What is decided, counted and handed out here belongs to the agent; the computing in between
// is in run_frame.h, for any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/advisor/payoff.h"
#include "liballoc/base/options.h"
#include "liballoc/heap/space/address_space.h"
#include "liballoc/paging/transfers/run_frame.h"
#include "liballoc/terrace.h"

namespace terrace::liballoc {

class RunCodec {
 public:
  // Frames on their way to the tier at any time; each has a buffer.
  static constexpr unsigned buffers = 2;
  static constexpr unsigned no_buffer = buffers;
  // Memory that it takes while it works, in runs: a part of the budget.
  static constexpr std::uint32_t memory_runs = buffers + 1;

  // What becomes of runs that leave from now on; not by_budget. Maps its memory when that is first needed.
  // Off gives the buffers' memory back, and what was compressed before can still be decoded. 0 or errno.
  int use(Compression compression);
  bool is_on() const { return compression_ != Compression::off; }
  // What it takes now.
  std::uint32_t taken_runs() const { return memory_ == nullptr ? 0 : is_on() ? memory_runs : 1; }
  bool has_free_buffer() const { return free_buffers_ != 0; }

  // What the tier took for so many bytes, without what was queued before them, and how much of that a thread
  // of the job waited for: the advisor's other half.
  void wrote(std::uint32_t bytes, std::uint64_t ns, std::uint64_t awaited_ns);
  void read(std::uint32_t bytes, std::uint64_t ns, std::uint64_t awaited_ns);

  unsigned free_buffers() const { return static_cast<unsigned>(__builtin_popcount(free_buffers_)); }

  // Whether to compress the run that is to be written. `number` is the run's: what lies there is mostly alike
  // from step to step. `may_be_kept`: a frame that is small enough would be, in DRAM. True: *encoding is to
  // be done, by any thread, and has a buffer until end_encoding().
  bool begin_encoding(const std::byte* run, std::uint32_t number, std::uint32_t generation, bool may_be_kept,
                      RunEncoding* encoding);
  // Learns from it. False: the run is stored as it is, and the buffer is free again; else it is to be given
  // back when it is written.
  bool end_encoding(const RunEncoding& encoding);
  void give_back(unsigned buffer);
  // The same of frames that are kept in DRAM.
  void kept(std::uint32_t bytes, std::uint64_t ns);
  void fetched(std::uint32_t bytes, std::uint64_t ns);
  // How long the sums of a whole run took, which a compressed one would not need.
  void summed(std::uint64_t ns);
  // Learns from what was read.
  void end_decoding(const RunDecoding& decoding);
  // For the agent's own computing; only when something was ever compressed.
  CodecScratch* scratch();

  // Adds what was counted since to statistics(). The agent's, under the heap's lock.
  void publish_counts();
  // By codec: zvc, zvc_exp, rle, csr8. Any thread, under the heap's lock.
  const terrace_codec_statistics* statistics() const { return statistics_; }

 private:
  struct Memory;
  struct Choice;
  void release_buffers();
  compression::Transfer transfer() const;
  Choice choose(std::span<const std::byte> run, std::uint32_t number, bool may_be_kept);

  Compression compression_ = Compression::off;
  Memory* memory_ = nullptr;
  std::byte* buffers_ = nullptr;
  unsigned free_buffers_ = 0;
  terrace_codec_statistics recent_[TERRACE_CODECS] = {};
  terrace_codec_statistics statistics_[TERRACE_CODECS] = {};
};

}  // namespace terrace::liballoc
