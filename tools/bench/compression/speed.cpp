// A contender that is fast takes all tensors in a round. One at half a gigabyte a second would take minutes;
// it stops after a third of a second, at the end of a tensor. Results are checked outside the time taken, and
// the place that they go to is overwritten before, or the result of the contender before would pass for the
// next one's.
#include "tools/bench/compression/speed.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr double enough_s = 0.33;

using Json = nlohmann::ordered_json;

struct Plain {
  double libc_copy = 0;
  double streaming_copy = 0;
  double read = 0;
};

// What one contender did in one round, and the copies right before it: what else the machine has to do
// changes from one second to the next.
struct Pass {
  Plain beside;
  double compress = 0;    // bytes of content a second
  double decompress = 0;  // the same
  double share = 0;       // c: compressed bytes for each of content
};

template <typename Work>
double rate_of(const WorkingSet& set, Work&& work) {
  const double begin = thread_s();
  for (std::size_t i = 0; i < set.tensors(); ++i) work(i);
  return static_cast<double>(set.tensors() * set.tensor_bytes()) / (thread_s() - begin);
}

Plain plain_pass(const WorkingSet& set, const StreamingCopy& copy) {
  Plain plain;
  plain.libc_copy = rate_of(set, [&](std::size_t i) {
    std::memcpy(set.output(i).data(), set.input(i).data(), set.tensor_bytes());
  });
  plain.streaming_copy = rate_of(
      set, [&](std::size_t i) { copy.copy(set.output(i).data(), set.input(i).data(), set.tensor_bytes()); });
  plain.read = rate_of(set, [&](std::size_t i) {
    asm volatile("" ::"r"(read_all_of(set.input(i))));  // used, as far as the compiler knows
  });
  return plain;
}

[[noreturn]] void stop(const std::string& contender, const char* what) {
  std::fprintf(stderr, "bench: %s: %s\n", contender.c_str(), what);
  std::exit(1);
}

// Compresses tensors from `first` on until time is up; returns the sizes of their frames.
std::vector<std::size_t> compress_pass(const WorkingSet& set, const Contender& contender, std::size_t first,
                                       Pass* pass) {
  std::vector<std::size_t> sizes;
  const double begin = thread_s();
  while (sizes.size() < set.tensors() && thread_s() - begin < enough_s) {
    const std::size_t i = first + sizes.size();
    sizes.push_back(contender.compress(set.input(i), set.frame(i)));
  }
  const double content = static_cast<double>(sizes.size() * set.tensor_bytes());
  pass->compress = content / (thread_s() - begin);
  double compressed = 0;
  for (const std::size_t size : sizes) {
    if (size == 0) stop(contender.name, "compressing failed");
    compressed += static_cast<double>(size);
  }
  pass->share = compressed / content;
  return sizes;
}

void decompress_pass(const WorkingSet& set, const Contender& contender, std::size_t first,
                     const std::vector<std::size_t>& sizes, Pass* pass) {
  for (std::size_t k = 0; k < sizes.size(); ++k)
    std::memset(set.output(first + k).data(), 0xA5, set.tensor_bytes());
  bool fine = true;
  const double begin = thread_s();
  for (std::size_t k = 0; k < sizes.size(); ++k)
    fine = contender.decompress(set.frame(first + k).first(sizes[k]), set.output(first + k)) && fine;
  pass->decompress = static_cast<double>(sizes.size() * set.tensor_bytes()) / (thread_s() - begin);
  if (!fine) stop(contender.name, "decompressing failed");
  for (std::size_t k = 0; k < sizes.size(); ++k)
    require_equal(set.output(first + k), set.input(first + k), contender.name);
}

Pass contender_pass(const WorkingSet& set, const Contender& contender, std::size_t first) {
  Pass pass;
  const auto sizes = compress_pass(set, contender, first, &pass);
  decompress_pass(set, contender, first, sizes, &pass);
  return pass;
}

using Rounds = std::map<std::string, std::vector<Pass>>;  // by contender

Rounds run_rounds(const WorkingSet& set, const StreamingCopy& copy, const std::vector<Contender>& contenders,
                  long rounds) {
  Rounds all;
  for (long round = 0; round < rounds; ++round) {
    for (std::size_t k = 0; k < contenders.size(); ++k) {
      const Contender& contender = contenders[round % 2 == 1 ? contenders.size() - 1 - k : k];
      const Plain beside = plain_pass(set, copy);
      Pass pass = contender_pass(set, contender, static_cast<std::size_t>(round) * 3 % set.tensors());
      pass.beside = beside;
      all[contender.name].push_back(pass);
    }
  }
  return all;
}

template <typename Value>
std::vector<double> each(const std::vector<Pass>& passes, const Value& value) {
  std::vector<double> values(passes.size());
  std::transform(passes.begin(), passes.end(), values.begin(), value);
  return values;
}

Json with_median(const std::vector<double>& rounds) {
  return {{"median", median(rounds)}, {"rounds", rounds}};
}

double compress_roofline(const Pass& p) { return 2 * p.beside.streaming_copy / (1 + p.share); }
double decompress_roofline(const Pass& p) { return 2 * p.beside.streaming_copy / (2 + p.share); }

Json summary_of(const std::string& name, const std::vector<Pass>& passes) {
  const auto middle = [&passes](auto&& value) { return median(each(passes, value)); };
  const auto compress = [](const Pass& p) { return p.compress; };
  const auto decompress = [](const Pass& p) { return p.decompress; };
  const auto copy = [](const Pass& p) { return p.beside.streaming_copy; };
  return {{"name", name},
          {"ratio", middle([](const Pass& p) { return 1 / p.share; })},
          {"compress_bytes_per_s", with_median(each(passes, compress))},
          {"decompress_bytes_per_s", with_median(each(passes, decompress))},
          {"streaming_copy_beside_bytes_per_s", with_median(each(passes, copy))},
          {"compress_to_streaming_copy",
           middle([](const Pass& p) { return p.compress / p.beside.streaming_copy; })},
          {"compress_time_to_memcpy", middle([](const Pass& p) { return p.beside.libc_copy / p.compress; })},
          {"compress_to_roofline", middle([](const Pass& p) { return p.compress / compress_roofline(p); })},
          {"decompress_to_roofline",
           middle([](const Pass& p) { return p.decompress / decompress_roofline(p); })}};
}

// Over all rounds and contenders.
double plain_median(const Rounds& all, double Plain::*rate) {
  std::vector<double> values;
  for (const auto& [name, passes] : all)
    for (const Pass& pass : passes) values.push_back(pass.beside.*rate);
  return median(values);
}

}  // namespace

WorkingSet::WorkingSet(std::size_t tensors, std::size_t tensor_bytes)
    : tensors_(tensors),
      tensor_bytes_(tensor_bytes),
      frame_bytes_((frame_room(tensor_bytes) + 4095) / 4096 * 4096),
      inputs_(tensors * tensor_bytes),
      frames_(tensors * frame_bytes_),
      outputs_(tensors * tensor_bytes) {}

void WorkingSet::fill(const ActivationSpec& spec) {
  const auto first = part(inputs_, 0, tensor_bytes_);
  generate_activations(spec, first);
  for (std::size_t i = 1; i < tensors_; ++i)
    std::memcpy(part(inputs_, i, tensor_bytes_).data(), first.data(), tensor_bytes_);
}

StreamingCopy fastest_copy(const WorkingSet& set) {
  StreamingCopy best{};
  double best_rate = 0;
  for (const StreamingCopy& copy : streaming_copies()) {
    std::vector<double> rates(3);
    for (double& rate : rates) rate = plain_pass(set, copy).streaming_copy;
    if (median(rates) <= best_rate) continue;
    best = copy;
    best_rate = median(rates);
  }
  return best;
}

Json measure_speed(WorkingSet& set, const StreamingCopy& copy, const std::string& name,
                   const ActivationSpec& spec, const std::vector<Contender>& contenders, long rounds) {
  set.fill(spec);
  const auto zeros = zero_statistics(set.input(0), compression::width_of(spec.element), spec.width);
  const Rounds all = run_rounds(set, copy, contenders, rounds);
  Json result = {{"name", name},
                 {"element", compression::name_of(spec.element)},
                 {"sparsity", zeros.sparsity},
                 {"mean_zero_run", zeros.mean_zero_run}};
  result["memcpy_bytes_per_s"] = plain_median(all, &Plain::libc_copy);
  result["streaming_copy_bytes_per_s"] = plain_median(all, &Plain::streaming_copy);
  result["read_bytes_per_s"] = plain_median(all, &Plain::read);
  for (const Contender& contender : contenders)
    result["contenders"].push_back(summary_of(contender.name, all.at(contender.name)));
  return result;
}

void require_equal(std::span<const std::byte> decompressed, std::span<const std::byte> original,
                   const std::string& contender) {
  if (decompressed.size() != original.size() ||
      std::memcmp(decompressed.data(), original.data(), original.size()) != 0)
    stop(contender, "what was decompressed is not the original");
}

}  // namespace terrace::bench
