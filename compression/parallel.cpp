// How the crew shares a frame; see parallel.h.
#include "compression/parallel.h"

#include <algorithm>

#include "compression/bytes.h"
#include "compression/frame_steps.h"

namespace terrace::compression {
namespace {

// The end of the payload so far, handed from block to block.
class Chain {
 public:
  // Waits for the turn of block i; returns where it begins.
  std::uint64_t begin_of(std::uint64_t i) const {
    while (next_.load(std::memory_order_acquire) != i) std::this_thread::yield();
    return round_up(end_, payload_unit);
  }
  void hand_on(std::uint64_t i, std::uint64_t end) {
    end_ = end;
    next_.store(i + 1, std::memory_order_release);
  }
  std::uint64_t end() const { return end_; }

 private:
  std::atomic<std::uint64_t> next_ = 0;
  std::uint64_t end_ = 0;  // belongs to the thread whose turn it is
};

}  // namespace

struct ParallelCompressor::Compression final : Job {
  Compression(std::span<const std::byte> content_, std::byte* frame_, const NewFrame& target_,
              const Kernels& kernels_)
      : content(content_), frame(frame_), target(target_), kernels(kernels_) {}

  void work(Workspace& workspace) override {
    std::uint64_t i = claimed++;
    while (i < target.header.blocks()) i = put_block(i, workspace);
    workspace.ahead = {};
    workspace.packs_unsampled = false;
    kernels.fence();
  }

  // Returns the thread's next block.
  std::uint64_t put_block(std::uint64_t i, Workspace& workspace) {
    const Header& header = target.header;
    const std::uint64_t next = claimed++;
    look_ahead(workspace.ahead, content, header, i, next);
    const EncodedBlock block =
        encode_unsummed(kernels, *target.codec, header.element, block_of(content, header, i), workspace);
    workspace.packs_unsampled = block.entry.kind != BlockKind::raw;
    const std::uint64_t offset = chain.begin_of(i);
    chain.hand_on(i, offset + block.extent.size());
    Entry entry = store_extent(kernels, block, frame + header.payload_offset + offset);
    entry.offset_units = static_cast<std::uint32_t>(offset / payload_unit);
    write_entry(frame, i, entry);
    return next;
  }

  std::span<const std::byte> content;
  std::byte* frame;
  const NewFrame& target;
  const Kernels& kernels;
  std::atomic<std::uint64_t> claimed = 0;
  Chain chain;
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

ParallelCompressor::ParallelCompressor(unsigned threads) : workspaces_(std::clamp(threads, 1U, max_threads)) {
  crew_.reserve(workspaces_.size() - 1);
  try {
    for (std::size_t i = 1; i < workspaces_.size(); ++i)
      crew_.emplace_back([this, i] { serve(workspaces_[i]); });
  } catch (...) {
    dismiss();  // those that did start: a thread that nobody joined ends the program
    throw;
  }
}

ParallelCompressor::~ParallelCompressor() { dismiss(); }

void ParallelCompressor::dismiss() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : crew_) thread.join();
}

void ParallelCompressor::serve(Workspace& workspace) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;; ++seen) {
    begun_.wait(lock, [&] { return ending_ || jobs_ > seen; });
    if (ending_) return;
    Job* job = job_;
    lock.unlock();
    job->work(workspace);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

void ParallelCompressor::run(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    working_ = crew_.size();
    ++jobs_;
  }
  begun_.notify_all();
  job.work(workspaces_.front());
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return working_ == 0; });
}

Compressed ParallelCompressor::compress(std::span<const std::byte> content, std::span<std::byte> frame,
                                        const FrameOptions& options, CodecSet codecs, const Kernels& with) {
  if (content.size() <= streamed_above || crew_.empty())
    return compression::compress(content, frame, options, workspaces_.front(), codecs, with);
  NewFrame target = begin_frame(content, frame, options, codecs);
  if (target.error != FrameError::none) return {target.error};
  Compression job(content, frame.data(), target, with);
  run(job);
  target.header.payload_bytes = job.chain.end();
  return finish_frame(frame.data(), target.header);
}

FrameError ParallelCompressor::decompress(std::span<const std::byte> frame, std::span<std::byte> content,
                                          CodecSet codecs, const Kernels& with) {
  if (content.size() <= streamed_above || crew_.empty())
    return compression::decompress(frame, content, workspaces_.front(), codecs, with);
  Header header;
  if (const FrameError error = open_frame(frame, content.size(), header); error != FrameError::none)
    return error;
  Decompression job(frame, content, header, codecs, with);
  run(job);
  return job.error;
}

}  // namespace terrace::compression
