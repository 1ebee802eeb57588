// How the team shares a frame; see parallel.h.
#include "compression/parallel/parallel.h"

#include <algorithm>

#include "compression/base/bytes.h"
#include "compression/frame_steps.h"

namespace terrace::compression {
namespace {

// Where the next block's extent begins: whoever knows its size hands the end of the payload on.
class Chain {
 public:
  struct State {
    std::uint64_t block;  // whose turn it is
    std::uint64_t end;    // of the extents before it
    std::uint64_t begin() const { return round_up(end, payload_unit); }
  };
  State now() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return {word >> end_bits, word & ((std::uint64_t{1} << end_bits) - 1)};
  }
  // False if somebody else did it.
  bool hand_on(const State& now, std::uint64_t extent_bytes) {
    std::uint64_t expected = word_of(now);
    const std::uint64_t next = word_of({now.block + 1, now.begin() + extent_bytes});
    return word_.compare_exchange_strong(expected, next, std::memory_order_acq_rel);
  }

 private:
  static constexpr unsigned end_bits = 40;
  static_assert(max_content_bytes < std::uint64_t{1} << (end_bits - 1));
  static_assert(max_content_bytes / block_bytes < std::uint64_t{1} << (63 - end_bits));
  static std::uint64_t word_of(const State& s) { return s.block << end_bits | s.end; }

  std::atomic<std::uint64_t> word_ = 0;
};

// How often a thread looks whether it is its turn (a block takes some 5 us, a look some 20 ns) before it
// takes the one before it for suspended.
constexpr unsigned patience = 2000;

}  // namespace

struct ParallelCompressor::Compression final : Job {
  Compression(std::span<const std::byte> content_, std::byte* frame_, const NewFrame& target_,
              const Kernels& kernels_, std::span<Claims> crew_)
      : content(content_), frame(frame_), target(target_), kernels(kernels_), crew(crew_) {
    for (Claims& claims : crew)
      for (Claim& claim : claims) claim.block = no_block;
  }

  void work(Workspace& workspace) override {
    Claims& claims = crew[joined++];
    std::uint64_t i = claim_block(claims[0]);
    for (unsigned turn = 0; i < target.header.blocks(); turn ^= 1)
      i = put_block(i, claims[turn], claims[turn ^ 1], workspace);
    workspace.ahead = {};
    workspace.packs_unsampled = false;
    kernels.fence();
  }

  std::uint64_t claim_block(Claim& claim) {
    const std::uint64_t i = claimed++;
    claim.begin.store(not_known, std::memory_order_relaxed);
    claim.block.store(i, std::memory_order_release);
    return i;
  }

  EncodedBlock encode(std::uint64_t i, Workspace& workspace) {
    if (error != FrameError::none) return {.entry = {}, .extent = {}, .failed = true};
    const EncodedBlock block = encode_unsummed(kernels, *target.codec, target.header.element,
                                               block_of(content, target.header, i), workspace);
    if (block.failed) error = FrameError::codec_failed;
    return block;
  }

  // What was handed on of a block.
  struct Place {
    std::uint64_t begin, bytes;
  };

  // Returns the thread's next block.
  std::uint64_t put_block(std::uint64_t i, Claim& claim, Claim& next_claim, Workspace& workspace) {
    const std::uint64_t next = claim_block(next_claim);
    look_ahead(workspace.ahead, content, target.header, i, next);
    EncodedBlock block = encode(i, workspace);
    workspace.packs_unsampled = block.entry.kind != BlockKind::raw;
    bool helped = false;
    const Place place = place_of(i, block.extent.size(), claim, workspace, helped);
    if (helped) block = encode(i, workspace);
    if (block.failed || block.extent.size() != place.bytes)
      error = FrameError::codec_failed;
    else
      put(i, block, place.begin);
    return next;
  }

  void put(std::uint64_t i, const EncodedBlock& block, std::uint64_t offset) {
    Entry entry = store_extent(kernels, block, frame + target.header.payload_offset + offset);
    entry.offset_units = static_cast<std::uint32_t>(offset / payload_unit);
    write_entry(frame, i, entry);
  }

  // Waits for the turn of block i, which takes so many bytes, and hands on.
  Place place_of(std::uint64_t i, std::uint64_t extent_bytes, const Claim& claim, Workspace& workspace,
                 bool& helped) {
    for (unsigned looks = 0;; ++looks) {
      const Chain::State now = chain.now();
      if (now.block > i) return told(claim);
      if (now.block == i && chain.hand_on(now, extent_bytes)) return {now.begin(), extent_bytes};
      if (now.block == i) continue;
      if (looks < patience)
        __builtin_ia32_pause();
      else
        helped = help(now, workspace) || helped;
    }
  }

  // What whoever encoded the block in this thread's stead is about to say, or has said.
  static Place told(const Claim& claim) {
    std::uint64_t begin = claim.begin.load(std::memory_order_acquire);
    for (; begin == not_known; begin = claim.begin.load(std::memory_order_acquire)) std::this_thread::yield();
    return {begin, claim.bytes.load(std::memory_order_relaxed)};
  }

  // Encodes the block whose turn it is for its size alone. The workspace then holds that block.
  bool help(const Chain::State& now, Workspace& workspace) {
    Claim* const claim = claim_of(now.block);
    if (claim == nullptr) {  // about to be noted
      std::this_thread::yield();
      return false;
    }
    workspace.ahead = {};
    const std::uint64_t extent_bytes = encode(now.block, workspace).extent.size();
    if (chain.hand_on(now, extent_bytes)) {
      claim->bytes.store(extent_bytes, std::memory_order_relaxed);
      claim->begin.store(now.begin(), std::memory_order_release);
    }
    return true;
  }

  Claim* claim_of(std::uint64_t i) const {
    for (Claims& claims : crew)
      for (Claim& claim : claims)
        if (claim.block.load(std::memory_order_acquire) == i) return &claim;
    return nullptr;
  }

  std::span<const std::byte> content;
  std::byte* frame;
  const NewFrame& target;
  const Kernels& kernels;
  std::span<Claims> crew;
  std::atomic<std::size_t> joined = 0;
  std::atomic<std::uint64_t> claimed = 0;
  Chain chain;
  std::atomic<FrameError> error = FrameError::none;
};

struct ParallelCompressor::Decompression final : Job {
  Decompression(std::span<const std::byte> frame_, std::span<std::byte> content_, const Header& header_,
                CodecSet codecs_, const Kernels& kernels_)
      : frame(frame_), content(content_), header(header_), codecs(codecs_), kernels(kernels_) {}

  void work(Workspace& workspace) override {
    workspace.past_caches = true;
    for (std::uint64_t i = claimed++; i < header.blocks() && error == FrameError::none; i = claimed++) {
      const auto block = content.subspan(i * block_bytes, header.content_of(i));
      const FrameError result = decompress_block(frame, header, i, block, workspace, codecs, kernels);
      if (result != FrameError::none) error = result;
    }
    workspace.past_caches = false;
    kernels.fence();
  }

  std::span<const std::byte> frame;
  std::span<std::byte> content;
  const Header& header;
  CodecSet codecs;
  const Kernels& kernels;
  std::atomic<std::uint64_t> claimed = 0;
  // Behind a good header and table, every block fails for one of the same two reasons; which comes first does
  // not matter.
  std::atomic<FrameError> error = FrameError::none;
};

ParallelCompressor::ParallelCompressor(unsigned threads)
    : workspaces_(std::clamp(threads, 1U, max_threads)),
      claims_(workspaces_.size()),
      team_(this->threads()) {}

void ParallelCompressor::run(Job& job) {
  team_.run([&](unsigned i) { job.work(workspaces_[i]); });
}

Compressed ParallelCompressor::compress(std::span<const std::byte> content, std::span<std::byte> frame,
                                        const FrameOptions& options, CodecSet codecs, const Kernels& with) {
  if (content.size() <= streamed_above || threads() == 1)
    return compression::compress(content, frame, options, workspaces_.front(), codecs, with);
  NewFrame target = begin_frame(content, frame, options, codecs);
  if (target.error != FrameError::none) return {target.error};
  Compression job(content, frame.data(), target, with, claims_);
  run(job);
  if (job.error != FrameError::none) return {job.error};
  target.header.payload_bytes = job.chain.now().end;
  return finish_frame(frame.data(), target.header);
}

FrameError ParallelCompressor::decompress(std::span<const std::byte> frame, std::span<std::byte> content,
                                          CodecSet codecs, const Kernels& with) {
  if (content.size() <= streamed_above || threads() == 1)
    return compression::decompress(frame, content, workspaces_.front(), codecs, with);
  Header header;
  if (const FrameError error = open_frame(frame, content.size(), header); error != FrameError::none)
    return error;
  Decompression job(frame, content, header, codecs, with);
  run(job);
  return job.error;
}

}  // namespace terrace::compression
