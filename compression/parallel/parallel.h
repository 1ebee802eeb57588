// One large tensor by many threads, to the same bytes as compress() writes with one.
//
// A compressed block's place is known when those before it have been encoded. So blocks are claimed in their
// order, each thread encodes into a workspace of its own, waits for the offset that its predecessor hands on,
// hands on its own end, and only then copies: encoding and copying run side by side, nothing is moved twice.
// Before it copies it claims its next block, which the copying then fetches into the cache.
//
//   thread 1   encode 0 ──▶ offset 0 ▸ copy 0 │ encode 3 …
//   thread 2   encode 1 ─────▶ offset 1 ▸ copy 1 │ encode 4 …
//   thread 3   encode 2 ────────▶ offset 2 ▸ copy 2 │ …
//
// A thread may be suspended before it hands on, for milliseconds where programs compete for the processors.
// Who has waited for longer than a block takes encodes the missing block itself, for its size, and hands on
// in that thread's stead, which finds its offset beside its claim.
//
// Where a codec fails, or a block comes out in another size than was handed on (its content changed
// meanwhile, say), nothing more is written, but the blocks are handed on, so that nobody waits for ever.
//
// A library of its own: threads have no place in what is preloaded.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "compression/compressor.h"
#include "compression/parallel/thread_team.h"

namespace terrace::compression {

// Belongs to one thread at a time, which is one of the crew while it calls. Memory and threads are acquired
// at construction (which throws where there are none), nothing after.
class ParallelCompressor {
 public:
  static constexpr unsigned max_threads = 256;

  // 1 to max_threads; other numbers become the nearest of these.
  explicit ParallelCompressor(unsigned threads);
  ParallelCompressor(const ParallelCompressor&) = delete;
  ParallelCompressor& operator=(const ParallelCompressor&) = delete;

  unsigned threads() const { return static_cast<unsigned>(workspaces_.size()); }

  // As the functions of compressor.h.
  Compressed compress(std::span<const std::byte> content, std::span<std::byte> frame,
                      const FrameOptions& options, CodecSet codecs = own_codecs,
                      const Kernels& with = kernels());
  FrameError decompress(std::span<const std::byte> frame, std::span<std::byte> content,
                        CodecSet codecs = own_codecs, const Kernels& with = kernels());

 private:
  // What the crew does together: work() is called once by each thread.
  struct Job {
    virtual void work(Workspace& workspace) = 0;

   protected:
    ~Job() = default;
  };
  // A block that a thread encodes or will encode next, and where its extent begins if another one handed on.
  static constexpr std::uint64_t no_block = ~std::uint64_t{0}, not_known = no_block;
  struct Claim {
    std::atomic<std::uint64_t> block = no_block, begin = not_known;
    std::atomic<std::uint64_t> bytes = 0;  // the extent's, as handed on; set before begin
  };
  struct alignas(64) Claims : std::array<Claim, 2> {};
  struct Compression;
  struct Decompression;

  void run(Job& job);

  std::vector<Workspace> workspaces_;
  std::vector<Claims> claims_;
  ThreadTeam team_;  // each thread has the workspace of its number
};

}  // namespace terrace::compression
