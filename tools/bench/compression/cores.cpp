// All cores at once on one tensor after the other: the parallel compressor beside a non-temporal copy that is
// divided among as many threads. What they share is the memory's bandwidth, which is what is asked about.
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "compression/parallel/parallel.h"
#include "tools/bench/compression/speed.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

using Json = nlohmann::ordered_json;
using compression::FrameError;
using compression::ParallelCompressor;

// Seconds from when the first of the threads begins to when the last one is done.
template <typename Work>
double seconds_on(std::size_t threads, const Work& work) {
  std::barrier ready(static_cast<std::ptrdiff_t>(threads));
  std::vector<double> begun(threads), ended(threads);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      ready.arrive_and_wait();
      begun[t] = now_s();
      work(t);
      ended[t] = now_s();
    });
  }
  for (std::thread& thread : running) thread.join();
  return *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
}

template <typename Work>
double seconds_for(const Work& work) {
  const double begin = now_s();
  work();
  return now_s() - begin;
}

void check(FrameError error) {
  if (error == FrameError::none) return;
  std::fprintf(stderr, "bench: zvc on all cores: %s\n", compression::describe(error));
  std::exit(1);
}

struct Samples {
  std::vector<double> copy;
  std::vector<double> compress;
  std::vector<double> decompress;
  std::vector<double> to_roofline;
};

void run_round(const WorkingSet& set, const StreamingCopy& copy, const ActivationSpec& spec,
               ParallelCompressor& crew, Samples* samples) {
  const auto bytes = static_cast<double>(set.tensors() * set.tensor_bytes());
  std::vector<std::size_t> sizes(set.tensors());
  const double copied = bytes / seconds_on(crew.threads(), [&](std::size_t t) {
                          for (std::size_t i = t; i < set.tensors(); i += crew.threads())
                            copy.copy(set.output(i).data(), set.input(i).data(), set.tensor_bytes());
                        });
  const double compressed =
      bytes / seconds_for([&] {
        for (std::size_t i = 0; i < set.tensors(); ++i) {
          const auto made = crew.compress(set.input(i), set.frame(i),
                                          {.codec = compression::Codec::zvc, .element = spec.element});
          check(made.error);
          sizes[i] = made.bytes;
        }
      });
  for (std::size_t i = 0; i < set.tensors(); ++i)
    std::fill(set.output(i).begin(), set.output(i).end(), std::byte{0xA5});
  const double decompressed = bytes / seconds_for([&] {
                                for (std::size_t i = 0; i < set.tensors(); ++i)
                                  check(crew.decompress(set.frame(i).first(sizes[i]), set.output(i)));
                              });
  for (std::size_t i = 0; i < set.tensors(); ++i)
    require_equal(set.output(i), set.input(i), "zvc on all cores");
  const double share = static_cast<double>(sizes[0]) / static_cast<double>(set.tensor_bytes());
  samples->copy.push_back(copied);
  samples->compress.push_back(compressed);
  samples->decompress.push_back(decompressed);
  samples->to_roofline.push_back(compressed * (1 + share) / (2 * copied));
}

}  // namespace

Json measure_all_cores(WorkingSet& set, const StreamingCopy& copy, const ActivationSpec& spec, long rounds) {
  set.fill(spec);
  ParallelCompressor crew(std::max(1U, std::thread::hardware_concurrency()));
  Samples samples;
  for (long round = 0; round < rounds; ++round) run_round(set, copy, spec, crew, &samples);
  return {{"cores", crew.threads()},
          {"name", std::string("zvc ") + compression::kernels().name},
          {"streaming_copy_bytes_per_s", median(samples.copy)},
          {"compress_bytes_per_s", median(samples.compress)},
          {"decompress_bytes_per_s", median(samples.decompress)},
          {"compress_to_roofline", median(samples.to_roofline)}};
}

}  // namespace terrace::bench
