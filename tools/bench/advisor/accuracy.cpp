// How near the advisor's predictions come to what is then measured. Passes over all sizes and
// sparsities teach the models; the second, on other data, of other sizes, in another order, is what counts:
// each tensor is sampled, every codec's times are predicted from the sample, then measured (the median of
// some runs), then learned.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>

#include "tools/bench/activations/activations.h"
#include "tools/bench/advisor/parts.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

using namespace compression;  // NOLINT: this measures it

constexpr Codec codecs[] = {Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8};
constexpr double sparsities[] = {0, .1, .2, .36, .5, .62, .73, .8, .9, .98};
constexpr std::size_t smallest_bytes = 65536;
constexpr std::size_t tile_bytes = std::size_t{16}
                                   << 20;  // larger tensors repeat it: codecs do not look back that far

struct Case {
  std::size_t size_class, bytes;
  double sparsity;
};

// Every size with every sparsity (with every third for the large ones), in random order; sizes down to 0.7 of
// the class's.
std::vector<Case> cases_up_to(std::size_t largest_bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> share(0.7, 1);
  std::vector<Case> cases;
  for (std::size_t size = smallest_bytes; size <= largest_bytes; size *= 4)
    for (std::size_t i = size > tile_bytes ? seed % 3 : 0;
         i<std::size(sparsities); i += size> tile_bytes ? 3 : 1)
      cases.push_back(
          {size, static_cast<std::size_t>(share(random) * static_cast<double>(size)) / 8 * 8, sparsities[i]});
  std::shuffle(cases.begin(), cases.end(), random);
  return cases;
}

void fill(std::span<std::byte> content, double sparsity, std::uint64_t seed) {
  const std::size_t tile = std::min(content.size(), tile_bytes);
  generate_activations(
      {.element = ElementType::f32, .sparsity = sparsity, .height = 56, .width = 56, .seed = seed},
      content.first(tile));
  for (std::size_t at = tile; at < content.size(); at += tile)
    std::memcpy(content.data() + at, content.data(), std::min(tile, content.size() - at));
}

int repetitions_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{16} << 20) / bytes, 3, 15));
}

double relative_error(double predicted, double measured) { return std::abs(predicted / measured - 1); }

// Codec both ways and a link of 2 GB/s both ways: what a decision rests on.
constexpr double nominal_ns_per_byte = 0.5;

double total_ns(double compress_ns, double decompress_ns, double moved) {
  return compress_ns + decompress_ns + 2 * nominal_ns_per_byte * moved;
}

struct Errors {
  std::vector<double> compress, decompress, fraction, total;
  std::vector<double> repeated;  // by how much the second half of the runs differs from the first: the floor
};

double repeat_error(const std::vector<double>& each) {
  const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
  return relative_error(median({each.begin(), middle}), median({middle, each.end()}));
}

void score(Errors& errors, const Candidate& predicted, const CodecRun& run, std::size_t bytes) {
  const Times& times = predicted.times;
  const double moved = predicted.fraction * static_cast<double>(bytes),
               really = static_cast<double>(run.frame_bytes);
  errors.compress.push_back(relative_error(times.compress_ns, run.compress_ns));
  errors.decompress.push_back(relative_error(times.decompress_ns, run.decompress_ns));
  errors.fraction.push_back(relative_error(moved, really));
  errors.total.push_back(relative_error(total_ns(times.compress_ns, times.decompress_ns, moved),
                                        total_ns(run.compress_ns, run.decompress_ns, really)));
  errors.repeated.push_back(repeat_error(run.compress_each_ns));
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void append(Errors& to, const Errors& from) {
  append(to.compress, from.compress);
  append(to.decompress, from.decompress);
  append(to.fraction, from.fraction);
  append(to.total, from.total);
  append(to.repeated, from.repeated);
}

class Accuracy {
 public:
  explicit Accuracy(std::size_t largest_bytes) : content_(largest_bytes), runner_(largest_bytes) {}

  void pass(const std::vector<Case>& cases, bool counts) {
    for (const Case& one : cases) measure(one, counts);
  }
  const std::map<std::size_t, Errors>& by_size() const { return by_size_; }
  const std::map<std::string, Errors>& by_codec() const { return by_codec_; }

 private:
  void measure(const Case& one, bool counts) {
    const auto content = content_.span().first(one.bytes);
    fill(content, one.sparsity, ++seed_);
    History history;
    Decision decision = advisor_->decide(history, {ElementType::f32, one.bytes, content}, {}, Link{});
    for (const Codec codec : codecs) {
      const CodecRun run = runner_.run(codec, ElementType::f32, content, repetitions_for(one.bytes));
      decision.codec = codec;
      if (counts) {
        score(by_size_[one.size_class], decision.chosen(), run, one.bytes);
        score(by_codec_[std::string(name_of(codec))], decision.chosen(), run, one.bytes);
      }
      History not_kept = history;  // the next codec is predicted from the sample alone
      advisor_->compressed(not_kept, decision, run.frame_bytes, run.compress_ns);
      advisor_->decompressed(codec, ElementType::f32, one.bytes, run.frame_bytes, run.decompress_ns);
    }
  }

  Pages content_;
  CodecRunner runner_;
  std::unique_ptr<Advisor> advisor_ = std::make_unique<Advisor>();
  std::uint64_t seed_ = 0;
  std::map<std::size_t, Errors> by_size_;
  std::map<std::string, Errors> by_codec_;
};

nlohmann::json print_errors(const std::string& name, const Errors& errors) {
  const double compress = median(errors.compress), decompress = median(errors.decompress),
               fraction = median(errors.fraction), total = median(errors.total),
               repeated = median(errors.repeated);
  std::printf("  %10s   %5.1f%%      %5.1f%%        %5.1f%%    %5.1f%%     %5.1f%%   %5zu\n", name.c_str(),
              100 * compress, 100 * decompress, 100 * fraction, 100 * total, 100 * repeated,
              errors.compress.size());
  return {{"compress_error", compress}, {"decompress_error", decompress},
          {"fraction_error", fraction}, {"total_error", total},
          {"repeat_error", repeated},   {"measurements", errors.compress.size()}};
}

std::string size_name(std::size_t bytes) {
  return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

// Alternately out and in, over sizes a factor of two apart, in an order that has nothing to do with size.
struct LinkSample {
  std::size_t bytes;
  double out_ns, in_ns;
};

std::vector<LinkSample> link_pass(
    FileLink& file, std::size_t largest_bytes, Link& link,
    std::map<std::size_t, std::pair<std::vector<double>, std::vector<double>>>* errors) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = smallest_bytes; size <= largest_bytes; size *= 2)
    sizes.insert(sizes.end(), 3, size);
  std::shuffle(sizes.begin(), sizes.end(), std::mt19937(errors == nullptr ? 1 : 2));
  std::vector<LinkSample> samples;
  for (const std::size_t bytes : sizes) {
    const LinkSample sample{bytes, file.out_ns(bytes), file.in_ns(bytes)};
    if (errors != nullptr) {
      (*errors)[bytes].first.push_back(relative_error(link.out.predict_ns({bytes, 1}), sample.out_ns));
      (*errors)[bytes].second.push_back(relative_error(link.in.predict_ns({bytes, 1}), sample.in_ns));
    }
    link.out.observe({bytes, 1}, sample.out_ns);
    link.in.observe({bytes, 1}, sample.in_ns);
    samples.push_back(sample);
  }
  return samples;
}

// By how much one of three measurements of a size differs from the next.
double link_repeat_error(const std::vector<LinkSample>& samples, double LinkSample::*ns) {
  std::map<std::size_t, double> last;
  std::vector<double> errors;
  for (const LinkSample& sample : samples) {
    if (last.contains(sample.bytes)) errors.push_back(relative_error(last[sample.bytes], sample.*ns));
    last[sample.bytes] = sample.*ns;
  }
  return median(errors);
}

double rate_gb_per_s(const std::vector<LinkSample>& samples, double LinkSample::*ns) {
  std::vector<double> rates;
  for (const LinkSample& sample : samples)
    if (sample.bytes >= std::size_t{4} << 20) rates.push_back(static_cast<double>(sample.bytes) / sample.*ns);
  return median(rates);
}

}  // namespace

nlohmann::json measure_codec_predictions(std::size_t largest_bytes) {
  const auto accuracy = std::make_unique<Accuracy>(largest_bytes);
  for (unsigned seed = 1; seed <= 2; ++seed)
    accuracy->pass(cases_up_to(std::min(largest_bytes, tile_bytes), seed), false);
  accuracy->pass(cases_up_to(largest_bytes, 3), false);
  accuracy->pass(cases_up_to(largest_bytes, 4), true);
  std::printf("\nPredicted against measured, median relative error (f32, sparsity 0 to 0.98; kernels: %s)\n",
              kernels().name);
  std::printf("  %10s   compress   decompress   fraction   total*   repeated   tensors x codecs\n", "");
  nlohmann::json report;
  Errors all;
  for (const auto& [bytes, errors] : accuracy->by_size()) {
    report["by_size"][std::to_string(bytes)] = print_errors(size_name(bytes), errors);
    append(all, errors);
  }
  for (const auto& [codec, errors] : accuracy->by_codec())
    report["by_codec"][codec] = print_errors(codec, errors);
  report["all"] = print_errors("all", all);
  std::printf(
      "  * both codecs and a link of 2 GB/s, both ways; repeated: one half of a tensor's runs against the "
      "other\n");
  return report;
}

nlohmann::json measure_link_predictions(FileLink& file, std::size_t largest_bytes, FixedLink& link) {
  Link model;
  std::map<std::size_t, std::pair<std::vector<double>, std::vector<double>>> errors;
  link_pass(file, largest_bytes, model, nullptr);
  const auto samples = link_pass(file, largest_bytes, model, &errors);
  link.out_gb_per_s = rate_gb_per_s(samples, &LinkSample::out_ns);
  link.in_gb_per_s = rate_gb_per_s(samples, &LinkSample::in_ns);
  std::printf(
      "\nThe file, O_DIRECT: %.2f GB/s out, %.2f GB/s in (medians from 4 MiB on); median relative error\n",
      link.out_gb_per_s, link.in_gb_per_s);
  nlohmann::json report = {{"out_gb_per_s", link.out_gb_per_s}, {"in_gb_per_s", link.in_gb_per_s}};
  std::vector<double> all_out, all_in;
  for (const auto& [bytes, both] : errors) {
    std::printf("  %10s   out %5.1f%%   in %5.1f%%\n", size_name(bytes).c_str(), 100 * median(both.first),
                100 * median(both.second));
    report["by_size"][std::to_string(bytes)] = {{"out_error", median(both.first)},
                                                {"in_error", median(both.second)}};
    append(all_out, both.first);
    append(all_in, both.second);
  }
  std::vector<double> all = all_out;
  append(all, all_in);
  const double repeated_out = link_repeat_error(samples, &LinkSample::out_ns);
  const double repeated_in = link_repeat_error(samples, &LinkSample::in_ns);
  std::printf("  %10s   %5.1f%%; a repeated measurement differs by %.1f%% out, %.1f%% in\n", "all",
              100 * median(all), 100 * repeated_out, 100 * repeated_in);
  report["all_error"] = median(all);
  report["out_error"] = median(all_out);
  report["in_error"] = median(all_in);
  report["repeat_error"] = {{"out", repeated_out}, {"in", repeated_in}};
  return report;
}

}  // namespace terrace::bench
