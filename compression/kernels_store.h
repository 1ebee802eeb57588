// Copying past the caches and XXH3-64 of what is copied, in one pass: what memory takes to accept a line is
// time enough to sum the next one up, so that a checksum of a dense tensor costs next to nothing. One after
// the other they took 1.4 times as long (docs/decisions/007-compression-kernels.md).
//
// XXH3 as its specification has it (xxHash, doc/xxhash_spec.md, "XXH3 algorithm for large inputs"): stripes
// of 64 bytes go into eight sums of 64 bits, each stripe with the secret from eight bytes further on; after
// sixteen stripes the sums are scrambled. The last 64 bytes are a stripe once more. Up to 240 bytes there is
// another algorithm: the library's.
//
// Only for the files that are compiled for a vector unit, after xxhash.h and the unit's own Sums:
//   void add(const std::byte* stripe, const std::byte* secret);    void scramble(const std::byte* secret);
//   void write(std::uint64_t* eight) const;                         static void line(std::byte* dst, const
//   std::byte* src);
#pragma once

#include "compression/kernels.h"

namespace terrace::compression {
namespace {

constexpr std::size_t stripe_bytes = 64;
constexpr std::size_t stripes_until_scrambled = 16;
constexpr std::size_t secret_step = 8;
constexpr std::size_t short_sum_bytes = 240;

const std::byte* secret_at(std::size_t offset) {
  return reinterpret_cast<const std::byte*>(XXH3_kSecret) + offset;
}

// How far ahead of a source that is not in the caches its lines are asked for.
constexpr std::size_t cold_lead = 2048;

// How much of the next block's beginning is asked for while a coded one is stored: about as many lines as it
// has.
constexpr std::size_t front_bytes = 24576;

// Asks for the next block, a line at a time, into the second-level cache: of every page the first lines,
// which the encoder samples and which make the hardware's prefetcher begin; then the first pages whole. More
// would come too early: what is asked for takes places that the lines in use need.
class Fetcher {
 public:
  explicit Fetcher(Ahead ahead) : ahead_(ahead), sampled_(ahead.bytes / page * sampled_lines) {}

  // Inlined early: g++ 12 takes a function that only prefetches for one without effect, and drops its calls.
  [[gnu::always_inline]] inline void line(std::size_t i) const {
    const std::size_t offset =
        i < sampled_ ? i / sampled_lines * page + i % sampled_lines * 64 : (i - sampled_) * 64;
    if (offset < ahead_.bytes && i < sampled_ + front_bytes / 64)
      __builtin_prefetch(ahead_.at + offset, 0, 2);
  }

 private:
  static constexpr std::size_t page = 4096, sampled_lines = 4;
  Ahead ahead_;
  std::size_t sampled_;
};

constexpr std::uint64_t initial_sums[8] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                           XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};

inline std::uint64_t folded(std::uint64_t a, std::uint64_t b) {
  __extension__ using Product = unsigned __int128;
  const Product product = Product{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t merged(const std::uint64_t* sums, std::size_t bytes) {
  std::uint64_t key[8];
  __builtin_memcpy(key, secret_at(11), sizeof key);
  std::uint64_t result = bytes * XXH_PRIME64_1;
  for (int i = 0; i < 8; i += 2) result += folded(sums[i] ^ key[i], sums[i + 1] ^ key[i + 1]);
  result = (result ^ result >> 37) * 0x165667919e3779f9U;
  return result ^ result >> 32;
}

// Lines that lie whole in the destination are stored with the stripe of the same number.
struct Lines {
  explicit Lines(const Storing& s)
      : head(-reinterpret_cast<std::uintptr_t>(s.dst) % 64), whole((s.bytes - head) / 64) {}
  std::size_t head, whole;
};

// Stores and sums up the stripes up to `end`, which is not behind the last but one.
template <typename Sums>
void store_stripes(Storing& s, std::size_t end) {
  const Lines lines(s);
  if (s.stripes == 0) __builtin_memcpy(s.dst, s.src, lines.head);
  const Fetcher fetcher(s.cold ? Ahead{} : s.ahead);
  Sums sums;
  if (s.stripes > 0) sums.read(s.sums);
  for (std::size_t i = s.stripes; i < end; ++i) {
    fetcher.line(i);
    if (s.cold) __builtin_prefetch(s.src + i * 64 + cold_lead, 0, 2);
    const std::size_t in_block = i % stripes_until_scrambled;
    sums.add(s.src + i * stripe_bytes, secret_at(in_block * secret_step));
    if (in_block == stripes_until_scrambled - 1) sums.scramble(secret_at(XXH_SECRET_DEFAULT_SIZE - 64));
    if (i < lines.whole) Sums::line(s.dst + lines.head + i * 64, s.src + lines.head + i * 64);
  }
  sums.write(s.sums);
  s.stripes = end;
}

template <typename Sums>
void store_some_stripes(Storing& s, std::size_t bytes) {
  if (s.bytes <= short_sum_bytes) return;
  const std::size_t last = (s.bytes - 1) / stripe_bytes, end = s.stripes + bytes / stripe_bytes;
  store_stripes<Sums>(s, end < last ? end : last);
}

template <typename Sums>
std::uint64_t store_rest_long(Storing& s) {
  const Lines lines(s);
  store_stripes<Sums>(s, (s.bytes - 1) / stripe_bytes);
  if (lines.whole > s.stripes)
    Sums::line(s.dst + lines.head + s.stripes * 64, s.src + lines.head + s.stripes * 64);
  const std::size_t tail = lines.head + lines.whole * 64;
  __builtin_memcpy(s.dst + tail, s.src + tail, s.bytes - tail);
  Sums sums;
  sums.read(s.sums);
  sums.add(s.src + s.bytes - stripe_bytes, secret_at(XXH_SECRET_DEFAULT_SIZE - 64 - 7));
  sums.write(s.sums);
  return merged(s.sums, s.bytes);
}

template <typename Sums>
std::uint64_t store_all_rest(Storing& s) {
  if (s.bytes > short_sum_bytes) return store_rest_long<Sums>(s);
  __builtin_memcpy(s.dst, s.src, s.bytes);
  return XXH3_64bits(s.src, s.bytes);
}

template <typename Sums>
std::uint64_t store_at_once(std::byte* dst, const std::byte* src, std::size_t bytes, Ahead ahead, bool cold) {
  Storing storing{.dst = dst, .src = src, .bytes = bytes, .ahead = ahead, .cold = cold};
  return store_all_rest<Sums>(storing);
}

}  // namespace
}  // namespace terrace::compression
