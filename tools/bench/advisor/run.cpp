#include "tools/bench/advisor/run.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t largest_piece = std::size_t{4} << 20;  // bytes of one read or write

std::size_t whole_pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

double clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Codecs by the time that the thread ran, which is all of it but what other programs took of the core; files,
// where waiting is what it is about, by the time that passed.
template <typename Work>
double timed_ns(clockid_t clock, const Work& work) {
  const double start = clock_ns(clock);
  work();
  return clock_ns(clock) - start;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// All of it, however little the kernel takes at a time.
template <typename Move>
void in_pieces(std::size_t bytes, const char* what, const Move& move) {
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t moved = move(at, std::min(largest_piece, bytes - at));
    if (moved == 0) errno = EIO;  // the file ends
    if (moved <= 0) fail(what);
    at += static_cast<std::size_t>(moved);
  }
}

void check(compression::FrameError error) {
  if (error != compression::FrameError::none) throw std::runtime_error(compression::describe(error));
}

}  // namespace

double thread_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

Pages::Pages(std::size_t bytes)
    : bytes_(whole_pages(bytes)), memory_(static_cast<std::byte*>(std::aligned_alloc(page, bytes_))) {
  if (memory_ == nullptr) fail("memory for " + std::to_string(bytes) + " bytes");
  std::memset(memory_.get(), 1, bytes_);
}

void Pages::Free::operator()(std::byte* memory) const { std::free(memory); }

void CodecRun::add(const CodecRun& more) {
  frame_bytes = more.frame_bytes;
  compress_each_ns.insert(compress_each_ns.end(), more.compress_each_ns.begin(), more.compress_each_ns.end());
  decompress_each_ns.insert(decompress_each_ns.end(), more.decompress_each_ns.begin(),
                            more.decompress_each_ns.end());
  compress_ns = median(compress_each_ns);
  decompress_ns = median(decompress_each_ns);
}

CodecRunner::CodecRunner(std::size_t largest_bytes)
    : frame_(compression::frame_bound(largest_bytes)),
      back_(largest_bytes),
      workspace_(std::make_unique<compression::Workspace>()) {}

CodecRun CodecRunner::run(Codec codec, ElementType element, std::span<const std::byte> content,
                          int repetitions) {
  CodecRun result;
  const auto back = back_.span().first(content.size());
  std::fill(back.begin(), back.end(), std::byte{0xA5});  // another codec had the same content before
  for (int i = 0; i < repetitions; ++i) {
    compression::Compressed frame;
    result.compress_each_ns.push_back(timed_ns(CLOCK_THREAD_CPUTIME_ID, [&] {
      frame = compression::compress(content, frame_.span(), {codec, element, 4}, *workspace_);
    }));
    check(frame.error);
    result.decompress_each_ns.push_back(timed_ns(CLOCK_THREAD_CPUTIME_ID, [&] {
      check(compression::decompress(frame_.span().first(frame.bytes), back, *workspace_));
    }));
    result.frame_bytes = frame.bytes;
  }
  if (!std::equal(back.begin(), back.end(), content.begin()))
    throw std::runtime_error("content came back changed");
  result.compress_ns = median(result.compress_each_ns);
  result.decompress_ns = median(result.decompress_each_ns);
  return result;
}

FileLink::FileLink(const std::string& directory, std::size_t largest_bytes)
    : buffer_(largest_bytes), fd_(open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)) {
  if (fd_ < 0) fail("--directory " + directory + ": no file for O_DIRECT there");
  errno = posix_fallocate(fd_, 0, static_cast<off_t>(buffer_.span().size()));
  if (errno != 0) fail("--directory " + directory + ": no room for the file");
  out_ns(largest_bytes);  // first writes allocate
}

FileLink::~FileLink() { close(fd_); }

double FileLink::out_ns(std::size_t bytes) {
  return timed_ns(CLOCK_MONOTONIC, [&] {
    in_pieces(whole_pages(bytes), "writing to the file", [&](std::size_t at, std::size_t piece) {
      return pwrite(fd_, buffer_.span().data() + at, piece, static_cast<off_t>(at));
    });
  });
}

double FileLink::in_ns(std::size_t bytes) {
  return timed_ns(CLOCK_MONOTONIC, [&] {
    in_pieces(whole_pages(bytes), "reading from the file", [&](std::size_t at, std::size_t piece) {
      return pread(fd_, buffer_.span().data() + at, piece, static_cast<off_t>(at));
    });
  });
}

}  // namespace terrace::bench
