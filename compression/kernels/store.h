// Copying past the caches and XXH3-64 of what is copied, in one pass: what memory takes to accept a line is
// time enough to sum the next one up, so that a checksum of a dense tensor costs next to nothing. One after
// the other they took 1.4 times as long (docs/decisions/007-compression-kernels.md).
//
// XXH3 as its specification has it (xxHash, doc/xxhash_spec.md, "XXH3 algorithm for large inputs"): stripes
// of 64 bytes go into eight sums of 64 bits, each stripe with the secret from eight bytes further on; after
// sixteen stripes the sums are scrambled. The last 64 bytes are a stripe once more. Up to 240 bytes there is
// another algorithm: the library's.
//
// For the files that are compiled for one unit each, after xxhash.h and the unit's own Sums:
//   void add(const std::byte* stripe, const std::byte* secret);    void scramble(const std::byte* secret);
//   void write(std::uint64_t* eight) const;                         static void line(std::byte* dst, const
//   std::byte* src);
#pragma once

#include "compression/kernels/kernels.h"
#include "compression/kernels/pack.h"

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
// And those of a source that is in the second-level cache.
constexpr std::size_t near_lead = 512;

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

// Stripes before the last one, which is summed up in another way.
inline std::size_t stripes_of(std::size_t bytes) {
  return bytes <= short_sum_bytes ? 0 : (bytes - 1) / stripe_bytes;
}

// The stripes of a store one by one, the sums in registers meanwhile.
template <typename Sums>
class Stripes {
 public:
  explicit Stripes(const Storing& s) : dst_(s.dst), src_(s.src), lines_(s), at_(s.stripes) {
    if (at_ == 0 && stripes_of(s.bytes) > 0) __builtin_memcpy(dst_, src_, lines_.head);
    if (at_ > 0) sums_.read(s.sums);
  }
  void save(Storing& s) const {
    s.stripes = at_;
    sums_.write(s.sums);
  }
  std::size_t at() const { return at_; }
  const std::byte* source() const { return src_ + at_ * stripe_bytes; }

  [[gnu::always_inline]] inline void next() {
    const std::size_t in_block = at_ % stripes_until_scrambled;
    sums_.add(source(), secret_at(in_block * secret_step));
    if (in_block == stripes_until_scrambled - 1) sums_.scramble(secret_at(XXH_SECRET_DEFAULT_SIZE - 64));
    if (at_ < lines_.whole) line();
    ++at_;
  }
  // The stripes from one scrambling to the next. Each must have a line.
  [[gnu::always_inline]] inline void next_sixteen() {
    const std::byte* const lines = src_ + lines_.head;
    std::byte* const to = dst_ + lines_.head + at_ * 64;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < stripes_until_scrambled; ++i) {
      sums_.add(source() + i * stripe_bytes, secret_at(i * secret_step));
      Sums::line(to + i * 64, lines + (at_ + i) * 64);
    }
    sums_.scramble(secret_at(XXH_SECRET_DEFAULT_SIZE - 64));
    at_ += stripes_until_scrambled;
  }
  // The lines that have no stripe of their own any more, and what is no line; then the last stripe.
  void finish(std::size_t bytes) {
    if (at_ < lines_.whole) line();
    const std::size_t tail = lines_.head + lines_.whole * 64;
    __builtin_memcpy(dst_ + tail, src_ + tail, bytes - tail);
    sums_.add(src_ + bytes - stripe_bytes, secret_at(XXH_SECRET_DEFAULT_SIZE - 64 - 7));
  }

 private:
  void line() const { Sums::line(dst_ + lines_.head + at_ * 64, src_ + lines_.head + at_ * 64); }

  std::byte* dst_;
  const std::byte* src_;
  Lines lines_;
  std::size_t at_;
  Sums sums_;
};

template <typename Sums, bool cold>
std::uint64_t store_rest_long(Storing& s) {
  Stripes<Sums> stripes(s);
  while (stripes.at() < stripes_of(s.bytes)) {
    if constexpr (cold) __builtin_prefetch(stripes.source() + cold_lead, 0, 2);
    stripes.next();
  }
  stripes.finish(s.bytes);
  stripes.save(s);
  return merged(s.sums, s.bytes);
}

template <typename Sums, bool cold = false>
std::uint64_t store_all_rest(Storing& s) {
  if (s.bytes > short_sum_bytes) return store_rest_long<Sums, cold>(s);
  __builtin_memcpy(s.dst, s.src, s.bytes);
  return XXH3_64bits(s.src, s.bytes);
}

template <typename Sums>
std::uint64_t store_at_once(std::byte* dst, const std::byte* src, std::size_t bytes, bool cold) {
  Storing storing{.dst = dst, .src = src, .bytes = bytes};
  return cold ? store_all_rest<Sums, true>(storing) : store_all_rest<Sums>(storing);
}

// Beside each row that is packed, its share of the block before is stored, and a row fetched.
//
// The share is stored stripe by stripe, or once in so many rows sixteen stripes without a branch between
// them: a row's share is 3.3 stripes of f32 at 62%, and a Zen 5 mispredicts some 50 branches a block by that,
// 13 by sixteen.
template <typename Sums, typename Order>
class Meanwhile {
 public:
  Meanwhile(Ahead& ahead, Storing& s)
      : fetcher_(ahead), storing_(s), end_(stripes_of(s.bytes)), due_(s.due), stripes_(s) {}
  ~Meanwhile() {
    if (end_ == 0) return;
    storing_.due = due_;
    stripes_.save(storing_);
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

  [[gnu::always_inline]] inline void row(const std::byte* packed) {
    fetcher_.row();
    fetch_scratch(packed);
    due_ += end_;
    if constexpr (Order::by_sixteen)
      sixteen();
    else
      one_by_one();
  }

 private:
  // The values of a block before the last lie in these lines, in the second-level cache by now. As many as a
  // row packs at half zeros.
  [[gnu::always_inline]] inline static void fetch_scratch(const std::byte* packed) {
    if constexpr (Order::scratch_lead == 0) return;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < row_bytes / 2; i += 64)
      __builtin_prefetch(packed + Order::scratch_lead + i, 1);
  }
  [[gnu::always_inline]] inline void one_by_one() {
    for (; due_ >= rows_of_block; due_ -= rows_of_block) {
      if (stripes_.at() >= end_) continue;
      __builtin_prefetch(stripes_.source() + near_lead);
      stripes_.next();
    }
  }
  // There is a line for each stripe but perhaps for the last one.
  [[gnu::always_inline]] inline void sixteen() {
    if (due_ < stripes_until_scrambled * rows_of_block || stripes_.at() + stripes_until_scrambled >= end_)
      return;
    due_ -= stripes_until_scrambled * rows_of_block;
    stripes_.next_sixteen();
  }

  Fetcher<Order> fetcher_;
  Storing& storing_;
  const std::size_t end_;
  std::size_t due_;
  Stripes<Sums> stripes_;
};

template <typename Words, typename Sums>
std::size_t pack_rows_storing(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                              Ahead& ahead, Storing& storing) {
  if (ahead.in_order) {
    Meanwhile<Sums, InOrder> meanwhile(ahead, storing);
    return pack_rows<Words>(src, n, mask, packed, meanwhile);
  }
  Meanwhile<Sums, SideBySide> meanwhile(ahead, storing);
  return pack_rows<Words>(src, n, mask, packed, meanwhile);
}

}  // namespace
}  // namespace terrace::compression
