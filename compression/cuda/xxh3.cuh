// XXH3-64 with seed 0 and the default secret, by all threads of a CTA. Written after the algorithm's
// description (xxHash, doc/xxhash_spec.md, "XXH3"); the numbers are the algorithm's.
//
// Above 240 bytes the input is cut into pieces of 1024 bytes, each of 16 stripes of 8 words. Within a piece a
// word is only ever added to one of 8 accumulators, so 8 x 64 sums of a 64 KiB block come from 512 threads at
// once. What is sequential is one scramble of the accumulators between two pieces: 8 lanes of the first warp
// do these.
//
//   piece 0 │ 16 stripes │ ─► 8 sums ─┐
//   piece 1 │ 16 stripes │ ─► 8 sums ─┤ add, scramble, add, scramble, … add, last stripe, merge
//   ⋮                                 ┘
//
// `Words` is a function from i to the eight bytes at 8 i, as the input may lie in shared memory, in a table
// that is still being put together, or in a frame.
#pragma once

#include "compression/cuda/simt.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 secret_words = 24;
inline constexpr u32 piece_bytes = 1024;
inline constexpr u32 piece_stripes = 16;
inline constexpr u32 stripe_words = 8;
inline constexpr u32 pieces_at_once = 64;
inline constexpr u32 sum_words = pieces_at_once * stripe_words;
inline constexpr u32 longest_short_input = 240;

inline constexpr u32 prime32_1 = 0x9E3779B1, prime32_2 = 0x85EBCA77, prime32_3 = 0xC2B2AE3D;
inline constexpr u64 prime64_1 = 0x9E3779B185EBCA87, prime64_2 = 0xC2B2AE3D27D4EB4F,
                     prime64_3 = 0x165667B19E3779F9, prime64_4 = 0x85EBCA77C2B2AE63,
                     prime64_5 = 0x27D4EB2F165667C5;

TERRACE_DEVICE u64 secret_word(u32 i) {
  static constexpr u64 words[secret_words] = {
      0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb,
      0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c, 0xa32e531b8b65d088,
      0x4ef90da297486471, 0xd8acdea946ef1938, 0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a,
      0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
      0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};
  return words[i];
}

// Each kernel puts the secret into shared memory once: lanes read different words of it.
TERRACE_DEVICE void load_secret(u64* secret) {
  for (u32 i = simt::thread_index(); i < secret_words; i += simt::thread_count()) secret[i] = secret_word(i);
}

struct SharedWords {
  const u64* words;
  TERRACE_DEVICE u64 operator()(u32 i) const { return words[i]; }
};

// Eight bytes at any byte; reads no word that holds none of them.
template <typename Words>
TERRACE_DEVICE u64 at64(const Words& words, u32 byte) {
  const u32 shift = byte % 8 * 8;
  const u64 low = words(byte / 8) >> shift;
  return shift == 0 ? low : low | words(byte / 8 + 1) << (64 - shift);
}

template <typename Words>
TERRACE_DEVICE u32 at32(const Words& words, u32 byte) {
  const u32 shift = byte % 8 * 8;
  const u64 low = words(byte / 8) >> shift;
  return static_cast<u32>(shift <= 32 ? low : low | words(byte / 8 + 1) << (64 - shift));
}

template <typename Words>
TERRACE_DEVICE u32 at8(const Words& words, u32 byte) {
  return static_cast<u32>(words(byte / 8) >> (byte % 8 * 8)) & 0xff;
}

TERRACE_DEVICE u64 multiply_fold(u64 a, u64 b) { return (a * b) ^ simt::multiply_high(a, b); }

TERRACE_DEVICE u64 avalanche(u64 h) {
  h = (h ^ h >> 37) * 0x165667919E3779F9;
  return h ^ h >> 32;
}

TERRACE_DEVICE u64 avalanche_xxh64(u64 h) {
  h = (h ^ h >> 33) * prime64_2;
  h = (h ^ h >> 29) * prime64_3;
  return h ^ h >> 32;
}

TERRACE_DEVICE u64 swap_bytes(u64 v) {
  v = (v & 0x00ff00ff00ff00ff) << 8 | (v >> 8 & 0x00ff00ff00ff00ff);
  v = (v & 0x0000ffff0000ffff) << 16 | (v >> 16 & 0x0000ffff0000ffff);
  return v << 32 | v >> 32;
}

TERRACE_DEVICE u64 rotate_left(u64 v, u32 by) { return v << by | v >> (64 - by); }

template <typename Words>
TERRACE_DEVICE u64 xxh3_to_3(const Words& words, u32 bytes, const SharedWords& secret) {
  const u32 ends = at8(words, 0) << 16 | at8(words, bytes / 2) << 24 | at8(words, bytes - 1);
  const u32 key = at32(secret, 0) ^ at32(secret, 4);
  return avalanche_xxh64((ends | bytes << 8) ^ u64{key});
}

template <typename Words>
TERRACE_DEVICE u64 xxh3_to_8(const Words& words, u32 bytes, const SharedWords& secret) {
  const u64 input = at32(words, bytes - 4) + (u64{at32(words, 0)} << 32);
  u64 h = input ^ at64(secret, 8) ^ at64(secret, 16);
  h = (h ^ rotate_left(h, 49) ^ rotate_left(h, 24)) * 0x9FB21C651E98DF25;
  h = (h ^ ((h >> 35) + bytes)) * 0x9FB21C651E98DF25;
  return h ^ h >> 28;
}

template <typename Words>
TERRACE_DEVICE u64 xxh3_to_16(const Words& words, u32 bytes, const SharedWords& secret) {
  const u64 low = at64(words, 0) ^ at64(secret, 24) ^ at64(secret, 32);
  const u64 high = at64(words, bytes - 8) ^ at64(secret, 40) ^ at64(secret, 48);
  return avalanche(bytes + swap_bytes(low) + high + multiply_fold(low, high));
}

template <typename Words>
TERRACE_DEVICE u64 mix16(const Words& words, u32 byte, const SharedWords& secret, u32 key) {
  return multiply_fold(at64(words, byte) ^ at64(secret, key), at64(words, byte + 8) ^ at64(secret, key + 8));
}

template <typename Words>
TERRACE_DEVICE u64 xxh3_to_128(const Words& words, u32 bytes, const SharedWords& secret) {
  u64 sum = bytes * prime64_1;
  for (u32 i = (bytes - 1) / 32 + 1; i-- > 0;) {
    sum += mix16(words, 16 * i, secret, 32 * i);
    sum += mix16(words, bytes - 16 * (i + 1), secret, 32 * i + 16);
  }
  return avalanche(sum);
}

template <typename Words>
TERRACE_DEVICE u64 xxh3_to_240(const Words& words, u32 bytes, const SharedWords& secret) {
  u64 sum = bytes * prime64_1;
  for (u32 i = 0; i < 8; ++i) sum += mix16(words, 16 * i, secret, 16 * i);
  sum = avalanche(sum);
  for (u32 i = 8; i < bytes / 16; ++i) sum += mix16(words, 16 * i, secret, 16 * (i - 8) + 3);
  return avalanche(sum + mix16(words, bytes - 16, secret, 136 - 17));
}

// By one thread; up to 240 bytes.
template <typename Words>
TERRACE_DEVICE u64 xxh3_short(const Words& words, u32 bytes, const u64* secret_memory) {
  const SharedWords secret{secret_memory};
  if (bytes == 0) return avalanche_xxh64(at64(secret, 56) ^ at64(secret, 64));
  if (bytes <= 3) return xxh3_to_3(words, bytes, secret);
  if (bytes <= 8) return xxh3_to_8(words, bytes, secret);
  if (bytes <= 16) return xxh3_to_16(words, bytes, secret);
  return bytes <= 128 ? xxh3_to_128(words, bytes, secret) : xxh3_to_240(words, bytes, secret);
}

TERRACE_DEVICE u64 multiply_halves(u64 key) { return u64{static_cast<u32>(key)} * (key >> 32); }

// Whole pieces of a long input; what follows the last of them is one more piece of 0 to 15 stripes.
TERRACE_DEVICE u32 whole_pieces(u32 bytes) { return (bytes - 1) / piece_bytes; }
TERRACE_DEVICE u32 stripes_behind(u32 bytes) { return (bytes - 1) % piece_bytes / 64; }

// One accumulator's sum over one piece. Neighbouring pieces begin at different stripes: the half warps that
// read them together then reach different banks. A word counts for its own accumulator by a product, for its
// neighbour's as it is.
template <typename Words>
TERRACE_DEVICE u64 piece_sum(const Words& words, u32 piece, u32 lane, u32 stripes, const u64* secret) {
  u64 products = 0, plain = 0;
  const auto add = [&](u32 stripe) {
    const u64 word = words(piece * (piece_bytes / 8) + stripe * stripe_words + lane);
    products += multiply_halves(word ^ secret[stripe + lane]);
    plain += word;
  };
  if (stripes == piece_stripes) {  // all but the last piece: nothing to ask for each stripe
    TERRACE_UNROLL
    for (u32 k = 0; k < piece_stripes; ++k) add((k + piece) % piece_stripes);
  } else {
    for (u32 stripe = 0; stripe < stripes; ++stripe) add(stripe);
  }
  return products + simt::shuffle_xor(plain, 1);
}

// The sums of up to 64 pieces from `first` on, by all threads; a barrier has to follow.
template <typename Words>
TERRACE_DEVICE void piece_sums(const Words& words, u32 bytes, u32 first, const u64* secret, u64* sums) {
  const u32 whole = whole_pieces(bytes), tasks = smaller(whole + 1 - first, pieces_at_once) * stripe_words;
  for (u32 begin = 0; begin < tasks; begin += simt::thread_count()) {
    const u32 task = begin + simt::thread_index(), piece = first + task / stripe_words;
    const u32 stripes = task >= tasks ? 0 : piece < whole ? piece_stripes : stripes_behind(bytes);
    const u64 sum = piece_sum(words, piece, task % stripe_words, stripes, secret);
    if (task < tasks) sums[task] = sum;
  }
}

// Called by all lanes of a warp; lanes 8 to 31 do what lanes 0 to 7 do.
TERRACE_DEVICE u64 first_accumulator() {
  switch (lane_index() % stripe_words) {
    case 0:
      return prime32_3;
    case 1:
      return prime64_1;
    case 2:
      return prime64_2;
    case 3:
      return prime64_3;
    case 4:
      return prime64_4;
    case 5:
      return prime32_2;
    case 6:
      return prime64_5;
    default:
      return prime32_1;
  }
}

TERRACE_DEVICE u64 add_whole_pieces(u64 accumulator, u32 pieces, const u64* sums, const u64* secret) {
  const u32 lane = lane_index() % stripe_words;
  const u64 key = secret[piece_stripes + lane];
  for (u32 piece = 0; piece < pieces; ++piece) {
    accumulator += sums[piece * stripe_words + lane];
    accumulator = (accumulator ^ accumulator >> 47 ^ key) * prime32_1;
  }
  return accumulator;
}

// What is behind the whole pieces, the last 64 bytes once more, and the merge.
template <typename Words>
TERRACE_DEVICE u64 finish_long(const Words& words, u32 bytes, u64 accumulator, u64 sum,
                               const u64* secret_memory) {
  const SharedWords secret{secret_memory};
  const u32 lane = lane_index() % stripe_words;
  const u64 word = at64(words, bytes - 64 + 8 * lane);
  accumulator += sum + multiply_halves(word ^ at64(secret, 121 + 8 * lane)) + simt::shuffle_xor(word, 1);
  const u64 keyed = accumulator ^ at64(secret, 11 + 8 * lane);
  u64 merged = multiply_fold(keyed, simt::shuffle_xor(keyed, 1));
  merged += simt::shuffle_xor(merged, 2);
  merged += simt::shuffle_xor(merged, 4);
  return avalanche(bytes * prime64_1 + merged);
}

// The checksum of at most 64 KiB whose sums are there, by one warp: all its lanes return it.
template <typename Words>
TERRACE_DEVICE u64 xxh3_from_sums(const Words& words, u32 bytes, const u64* secret, const u64* sums) {
  if (bytes <= longest_short_input) return xxh3_short(words, bytes, secret);
  const u32 whole = whole_pieces(bytes);
  const u64 accumulator = add_whole_pieces(first_accumulator(), whole, sums, secret);
  return finish_long(words, bytes, accumulator, sums[whole * stripe_words + lane_index() % stripe_words],
                     secret);
}

template <typename Words>
TERRACE_DEVICE void sums_for_xxh3(const Words& words, u32 bytes, const u64* secret, u64* sums) {
  if (bytes > longest_short_input) piece_sums(words, bytes, 0, secret, sums);
}

// Any length, by all threads; those of the first warp return the checksum, the others something.
template <typename Words>
TERRACE_DEVICE u64 xxh3(const Words& words, u32 bytes, const u64* secret, u64* sums) {
  if (bytes <= longest_short_input) return xxh3_short(words, bytes, secret);
  const u32 whole = whole_pieces(bytes);
  u64 accumulator = first_accumulator();
  u32 first = 0;
  for (;; first += pieces_at_once) {
    simt::sync_cta();  // those who read the sums of the round before are done
    piece_sums(words, bytes, first, secret, sums);
    simt::sync_cta();
    accumulator = add_whole_pieces(accumulator, smaller(whole - first, pieces_at_once), sums, secret);
    if (whole - first < pieces_at_once) break;
  }
  const u64 behind = sums[(whole - first) * stripe_words + lane_index() % stripe_words];
  return finish_long(words, bytes, accumulator, behind, secret);
}

}  // namespace terrace::compression::cuda
