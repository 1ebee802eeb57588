// The passes of the probe, each a loop of submit and poll with a deadline.
#include "tiers/probe/probe.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tiers/mapping.h"
#include "tiers/memory/nvm_tier.h"
#include "tiers/pool_file.h"

namespace terrace::tiers {
namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
constexpr std::size_t pieces_in_flight = 8;
constexpr std::uint64_t max_file_bytes = std::uint64_t{16} << 30;
constexpr std::size_t max_random_reads = 4096;
constexpr int wait_ms = 100;

std::uint64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void wait_for(const Tier& tier) noexcept {
  if (tier.wait_fd() < 0) return;
  pollfd waited{tier.wait_fd(), POLLIN, 0};
  ::poll(&waited, 1, wait_ms);
}

// xorshift64: only has to miss the device's read-ahead.
std::uint64_t scramble(std::uint64_t& state) noexcept {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

class Probe {
 public:
  explicit Probe(const ProbeOptions& options) noexcept
      : options_(options), deadline_ns_(now_ns() + options.max_ns) {}

  int prepare(const char* directory) noexcept;
  int prepare_nvm(int fd) noexcept;
  int run(ProbeResult* out) noexcept;

 private:
  int make_buffers() noexcept;
  int adopt(int fd) noexcept;
  std::uint64_t file_bytes() const noexcept { return options_.file_bytes / piece_bytes * piece_bytes; }
  int sequential(Direction direction, double* bytes_per_second) noexcept;
  int fill_queue(Direction direction, std::uint64_t* next) noexcept;
  int collect(std::uint64_t* moved) noexcept;
  int one_random_read(std::uint64_t* latency_ns) noexcept;
  int random(ProbeResult* out) noexcept;
  bool late() const noexcept { return now_ns() >= deadline_ns_; }

  const ProbeOptions options_;
  const std::uint64_t deadline_ns_;
  std::uint64_t random_state_ = 0x9e3779b97f4a7c15;
  Extent file_;
  Mapping buffers_;  // outlives drive_, whose destructor waits for what is in flight
  std::array<std::uint64_t, max_random_reads> latencies_ns_{};
  NvmeTier drive_;
  NvmTier nvm_;
  Tier* tier_ = &drive_;
};

int Probe::make_buffers() noexcept {
  if (const int error = buffers_.map(piece_bytes * pieces_in_flight)) return error;
  // Devices may compress or skip zeros.
  for (std::uint64_t at = 0; at < buffers_.bytes(); at += sizeof(std::uint64_t)) {
    const std::uint64_t noise = scramble(random_state_);
    std::memcpy(buffers_.data() + at, &noise, sizeof noise);
  }
  return 0;
}

int Probe::prepare(const char* directory) noexcept {
  if (const int error = make_buffers()) return error;
  int fd = -1;
  if (const int error = open_pool_file(directory, &fd)) return error;
  const int error = adopt(fd);
  if (error != 0 && drive_.fd() < 0) ::close(fd);
  return error;
}

int Probe::adopt(int fd) noexcept {
  if (const int error = drive_.open(fd, {.capacity_bytes = file_bytes(),
                                         .grow_step_bytes = file_bytes(),
                                         .queue_depth = pieces_in_flight,
                                         .io = options_.io}))
    return error;
  return drive_.reserve(file_bytes(), &file_);
}

int Probe::prepare_nvm(int fd) noexcept {
  tier_ = &nvm_;
  int error = make_buffers();
  if (error == 0) error = nvm_.open(fd, file_bytes(), pieces_in_flight);
  if (nvm_.fd() < 0) ::close(fd);
  return error != 0 ? error : nvm_.reserve(file_bytes(), &file_);
}

int Probe::run(ProbeResult* out) noexcept {
  ProbeResult result;
  result.direct = drive_.fd() >= 0 && drive_.direct();
  result.io = tier_->io();
  result.file_bytes = file_.bytes;
  if (const int error = sequential(Direction::write, &result.fresh_write_bytes_per_second)) return error;
  if (const int error = sequential(Direction::write, &result.write_bytes_per_second)) return error;
  if (const int error = sequential(Direction::read, &result.read_bytes_per_second)) return error;
  if (const int error = random(&result)) return error;
  *out = result;
  return 0;
}

int Probe::sequential(Direction direction, double* bytes_per_second) noexcept {
  const std::uint64_t start_ns = now_ns();
  std::uint64_t next = 0;
  std::uint64_t moved = 0;
  while (moved < file_.bytes && (!late() || tier_->in_flight() > 0)) {
    if (!late())
      if (const int error = fill_queue(direction, &next)) return error;
    if (tier_->in_flight() == 0) break;
    wait_for(*tier_);
    if (const int error = collect(&moved)) return error;
  }
  if (moved == 0) return ETIMEDOUT;
  const std::uint64_t took_ns = std::max<std::uint64_t>(now_ns() - start_ns, 1);
  *bytes_per_second = static_cast<double>(moved) * 1e9 / static_cast<double>(took_ns);
  return 0;
}

// Buffers go round: completions of a queue this short come nearly in order, and what
// is in them is noise anyway.
int Probe::fill_queue(Direction direction, std::uint64_t* next) noexcept {
  while (*next < file_.bytes && tier_->in_flight() < pieces_in_flight) {
    std::byte* const buffer = buffers_.data() + *next % buffers_.bytes();
    const Extent piece{file_.offset + *next, piece_bytes};
    if (const int error = tier_->submit({direction, piece, buffer, 0})) return error;
    *next += piece_bytes;
  }
  return 0;
}

int Probe::collect(std::uint64_t* moved) noexcept {
  Completion done[pieces_in_flight];
  const std::size_t count = tier_->poll(done);
  for (std::size_t i = 0; i < count; ++i) {
    if (done[i].error != 0) return done[i].error;
    *moved += piece_bytes;
  }
  return 0;
}

int Probe::one_random_read(std::uint64_t* latency_ns) noexcept {
  const std::uint64_t block = scramble(random_state_) % (file_.bytes / block_bytes);
  const Extent piece{file_.offset + block * block_bytes, block_bytes};
  const std::uint64_t start_ns = now_ns();
  if (const int error = tier_->submit({Direction::read, piece, buffers_.data(), 0})) return error;
  Completion done;
  while (tier_->poll({&done, 1}) == 0) wait_for(*tier_);
  *latency_ns = now_ns() - start_ns;
  return done.error;
}

int Probe::random(ProbeResult* out) noexcept {
  std::size_t count = 0;
  while (count < options_.random_reads && !late()) {
    if (const int error = one_random_read(&latencies_ns_[count])) return error;
    ++count;
  }
  if (count == 0) return ETIMEDOUT;
  const auto end = latencies_ns_.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(latencies_ns_.begin(), end);
  out->random_reads = count;
  out->read_latency_p50_ns = latencies_ns_[count / 2];
  out->read_latency_p99_ns = latencies_ns_[count * 99 / 100];
  return 0;
}

bool valid(const ProbeOptions& options) noexcept {
  return options.file_bytes >= piece_bytes && options.file_bytes <= max_file_bytes &&
         options.random_reads > 0 && options.random_reads <= max_random_reads;
}

}  // namespace

int probe_directory(const char* directory, const ProbeOptions& options, ProbeResult* out) noexcept {
  if (!valid(options)) return EINVAL;
  Probe probe(options);
  if (const int error = probe.prepare(directory)) return error;
  return probe.run(out);
}

int probe_nvm(int fd, const ProbeOptions& options, ProbeResult* out) noexcept {
  if (!valid(options)) {
    ::close(fd);
    return EINVAL;
  }
  Probe probe(options);
  if (const int error = probe.prepare_nvm(fd)) return error;
  return probe.run(out);
}

}  // namespace terrace::tiers
