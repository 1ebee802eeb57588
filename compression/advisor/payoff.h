// What a tensor's way out of a tier and back costs, compressed or not: the rules by which compressing pays.
//
//   serial      codec, then link; one way or both. One way it pays where T > L / (1 - c), that is where
//               s > 1/b + L/T for a codec of T bytes a second, a link of L, elements of b bits.
//   pipelined   in chunks: while one is on the link the next is being encoded. Asymptotically min(T, L/c).
//   overlapped  with compute (a training step): only what compute does not hide counts, while the codec takes
//               resources from compute: a share chi of its time is lost. What is hidden anyway is never
//               compressed.
//
// All times in nanoseconds. Whatever is negative or not finite counts as zero or as 30 years.
#pragma once

#include <cstdint>

namespace terrace::compression {

enum class Schedule : std::uint8_t { serial, pipelined, overlapped };

struct Transfer {
  Schedule schedule = Schedule::serial;
  bool round_trip = true;    // out and in again, else out only
  std::uint32_t chunks = 8;  // pipelined: pieces of equal size
  double hidden_out_ns = 0;  // overlapped: compute that goes on meanwhile
  double hidden_in_ns = 0;
  double chi = 1;  // overlapped: what share of the codec's time is taken from compute
  // What a processor does to a tensor that moves as it is: a checksum, say, which a frame brings along.
  double raw_out_ns = 0;
  double raw_in_ns = 0;
};

// One candidate's times; for raw the codec's are those that the Transfer names.
struct Times {
  double compress_ns = 0;
  double out_ns = 0;
  double in_ns = 0;
  double decompress_ns = 0;
};

// What of it the job waits for.
double cost_ns(const Transfer& transfer, const Times& times);

// The share of zeros above which zvc pays on a serial way (c = 1 - s + 1/b). Rates in the same unit; those of
// the codec are of content. Over 1: never.
double break_even_one_way(double element_bits, double link_rate, double compress_rate);
double break_even_round_trip(double element_bits, double link_rate, double compress_rate,
                             double decompress_rate);

}  // namespace terrace::compression
