// All cores at once. Each compresses tensors of its own, so nothing is shared but the memory's bandwidth,
// which is what is asked about. A step's rate counts from when all threads stand ready to when the last one
// is done.
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tools/bench/compression_speed.h"
#include "tools/bench/measure.h"

namespace terrace::bench {
namespace {

using Json = nlohmann::ordered_json;

// Runs work(thread, tensor) for every tensor, tensor i on thread i modulo their number; bytes of content a
// second.
template <typename Work>
double rate_on(std::size_t threads, const WorkingSet& set, const Work& work) {
  std::barrier ready(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      ready.arrive_and_wait();
      for (std::size_t i = t; i < set.tensors(); i += threads) work(t, i);
    });
  }
  ready.arrive_and_wait();
  const double begin = now_s();
  for (std::thread& thread : running) thread.join();
  return static_cast<double>(set.tensors() * set.tensor_bytes()) / (now_s() - begin);
}

void check_all(const WorkingSet& set, const std::vector<char>& fine, const std::string& contender) {
  for (std::size_t i = 0; i < set.tensors(); ++i) {
    if (fine[i] == 0) {
      std::fprintf(stderr, "bench: %s on all cores: decompressing failed\n", contender.c_str());
      std::exit(1);
    }
    require_equal(set.output(i), set.input(i), contender);
  }
}

struct Samples {
  std::vector<double> copy;
  std::vector<double> compress;
  std::vector<double> decompress;
  std::vector<double> to_roofline;
};

void run_round(const WorkingSet& set, const StreamingCopy& copy, const std::vector<Contender>& codecs,
               Samples* samples) {
  const std::size_t threads = codecs.size();
  std::vector<std::size_t> sizes(set.tensors());
  std::vector<char> fine(set.tensors());
  const double copied = rate_on(threads, set, [&](std::size_t, std::size_t i) {
    copy.copy(set.output(i).data(), set.input(i).data(), set.tensor_bytes());
  });
  const double compressed = rate_on(threads, set, [&](std::size_t t, std::size_t i) {
    sizes[i] = codecs[t].compress(set.input(i), set.frame(i));
  });
  for (std::size_t i = 0; i < set.tensors(); ++i)
    std::fill(set.output(i).begin(), set.output(i).end(), std::byte{0xA5});
  const double decompressed = rate_on(threads, set, [&](std::size_t t, std::size_t i) {
    fine[i] = codecs[t].decompress(set.frame(i).first(sizes[i]), set.output(i)) ? 1 : 0;
  });
  check_all(set, fine, codecs[0].name);
  const double share = static_cast<double>(sizes[0]) / static_cast<double>(set.tensor_bytes());
  samples->copy.push_back(copied);
  samples->compress.push_back(compressed);
  samples->decompress.push_back(decompressed);
  samples->to_roofline.push_back(compressed * (1 + share) / (2 * copied));
}

}  // namespace

Json measure_all_cores(WorkingSet& set, const StreamingCopy& copy, const ActivationSpec& spec, long rounds) {
  set.fill(spec);
  std::vector<Contender> codecs;  // one for each thread: each has a workspace
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    codecs.push_back(zvc_contender(spec.element));
  Samples samples;
  for (long round = 0; round < rounds; ++round) run_round(set, copy, codecs, &samples);
  return {{"cores", codecs.size()},
          {"name", codecs[0].name},
          {"streaming_copy_bytes_per_s", median(samples.copy)},
          {"compress_bytes_per_s", median(samples.compress)},
          {"decompress_bytes_per_s", median(samples.decompress)},
          {"compress_to_roofline", median(samples.to_roofline)}};
}

}  // namespace terrace::bench
