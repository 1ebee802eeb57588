// Mutated frames: good ones of every codec, changed in a few places, most of them with their checksums made
// right again, so that not only the first check is tried. Every set of kernels must come to the same verdict
// and the same content, and touch nothing outside; a change without repair must be noticed.
//
//   compression_mutation_test                            some seconds, as ctest runs it
//   compression_mutation_test --mutations 1000000        the full campaign, for each codec
//   compression_mutation_test --codec zvc --seed 7       one codec, other mutations
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "compression/base/bytes.h"
#include "differential.h"

namespace terrace::compression::test {
namespace {

struct Options {
  std::uint64_t mutations = 20000;
  std::uint64_t seed = 1;
  std::optional<Codec> codec;
};

struct Counts {
  std::array<std::uint64_t, 11> by_error = {};
  std::uint64_t faults = 0;
};

// Frames of one codec: small ones for the most part, a few of several blocks, one of many.
std::vector<Bytes> seeds_of(Codec codec) {
  std::vector<Bytes> seeds;
  std::mt19937_64 random(9);
  for (const ElementType type : every_type)
    for (const Pattern& pattern : patterns())
      seeds.push_back(compressed(content_of(pattern, type, 1 + random() % 1500), {codec, type, 4}).frame);
  for (const ElementType type : {ElementType::u8, ElementType::bf16, ElementType::f32})
    for (const unsigned per_mille : {2U, 300U}) {
      const std::size_t elements = (block_bytes + 1000) / width_of(type);
      seeds.push_back(compressed(random_content(type, elements, per_mille, random), {codec, type, 8}).frame);
    }
  // One that is large enough for the way past the caches.
  const Bytes large = content_of(patterns().back(), ElementType::f32, (std::size_t{1} << 18) + 1000);
  seeds.push_back(compressed(large, {codec, ElementType::f32, 4}).frame);
  return seeds;
}

std::uint64_t interesting(std::mt19937_64& random) {
  constexpr std::uint64_t values[] = {0,
                                      1,
                                      15,
                                      16,
                                      17,
                                      63,
                                      64,
                                      255,
                                      256,
                                      65535,
                                      65536,
                                      0x7fffffff,
                                      0xffffffff,
                                      ~std::uint64_t{0},
                                      std::uint64_t{1} << 63,
                                      std::uint64_t{1} << 36};
  return random() % 4 == 0 ? random() : values[random() % 16] + random() % 3 - 1;
}

// Half of the places lie in header and table, which are a small part of most frames.
std::size_t place_in(const Bytes& frame, std::mt19937_64& random) {
  const std::size_t front = std::min<std::size_t>(frame.size(), header_bytes + 2 * entry_bytes);
  return random() % 2 == 0 ? random() % front : random() % frame.size();
}

void overwrite(Bytes& frame, std::size_t at, std::mt19937_64& random) {
  const std::uint64_t value = interesting(random);
  const std::size_t width = std::size_t{1} << random() % 4;
  std::memcpy(frame.data() + at, &value, std::min(width, frame.size() - at));
}

// One field of an entry or of the header, set to something that may well be legal.
void change_field(Bytes& frame, std::mt19937_64& random) {
  if (frame.size() < header_bytes + entry_bytes) return;
  switch (random() % 6) {
    case 0:
      return store(frame.data() + 5, static_cast<std::uint8_t>(random() % codec_count));
    case 1:
      return store(frame.data() + 6, static_cast<std::uint8_t>(random() % element_type_count));
    case 2:
      return store(frame.data() + 8, load<std::uint64_t>(frame.data() + 8) + random() % 33 - 16);
    case 3:
      return store(frame.data() + 16, load<std::uint64_t>(frame.data() + 16) + random() % 33 - 16);
    case 4:
      return store(frame.data() + header_bytes + 15, static_cast<std::uint8_t>(random() % 6));
    default:
      return store(frame.data() + header_bytes + 12,
                   static_cast<std::uint16_t>(load<std::uint16_t>(frame.data() + header_bytes + 12) +
                                              random() % 33 - 16));
  }
}

void copy_within(Bytes& frame, std::mt19937_64& random) {
  const std::size_t from = random() % frame.size(), to = random() % frame.size();
  std::memmove(frame.data() + to, frame.data() + from,
               std::min<std::size_t>(random() % 64, frame.size() - std::max(from, to)));
}

void mutate(Bytes& frame, std::mt19937_64& random) {
  if (frame.empty()) return;
  const std::size_t at = place_in(frame, random);
  switch (random() % 8) {
    case 0:
    case 1:
      frame[at] ^= static_cast<std::byte>(1U << random() % 8);
      return;
    case 2:
      frame[at] = static_cast<std::byte>(random());
      return;
    case 3:
      return overwrite(frame, at, random);
    case 4:
      return copy_within(frame, random);
    case 5:
      return frame.resize(random() % 4 == 0
                              ? random() % frame.size()
                              : frame.size() - random() % std::min<std::size_t>(20, frame.size()));
    case 6:
      return frame.resize(frame.size() + random() % 40, static_cast<std::byte>(random()));
    default:
      return change_field(frame, random);
  }
}

// Returns whether anything was made right again.
bool repair(Bytes& frame, std::mt19937_64& random) {
  const std::uint64_t depth = random() % 8;  // 0: nothing, 1: header, 2: table too, else the blocks too
  if (depth >= 3) repair_blocks(frame);
  if (depth >= 2) repair_table(frame);
  if (depth >= 1) repair_header(frame);
  return depth >= 1;
}

bool begins_with(const Bytes& frame, const Bytes& good) {
  return frame.size() >= good.size() && std::equal(good.begin(), good.end(), frame.begin());
}

void report(Codec codec, std::uint64_t seed, std::uint64_t i, const std::string& fault) {
  std::fprintf(stderr, "%s: %s (--codec %s --seed %llu, mutation %llu)\n",
               std::string(name_of(codec)).c_str(), fault.c_str(), std::string(name_of(codec)).c_str(),
               static_cast<unsigned long long>(seed), static_cast<unsigned long long>(i));
}

Counts run_codec(Codec codec, const Options& options) {
  const std::vector<Bytes> seeds = seeds_of(codec);
  Differential differential;
  Counts counts;
  for (std::uint64_t i = 0; i < options.mutations; ++i) {
    std::mt19937_64 random(options.seed << 32 ^ i);
    const Bytes& good = seeds[random() % seeds.size()];
    Bytes frame = good;
    for (std::uint64_t left = 1 + random() % 3; left > 0; --left) mutate(frame, random);
    const bool repaired = repair(frame, random);
    auto [error, fault, content] = differential.decode(frame);
    if (fault.empty() && i % 8 == 0) fault = differential.decode_blocks(frame).fault;
    if (!repaired && error == FrameError::none && !begins_with(frame, good))
      fault = "a changed frame was accepted";
    ++counts.by_error[static_cast<std::size_t>(error)];
    if (fault.empty()) continue;
    if (++counts.faults <= 10) report(codec, options.seed, i, fault);
  }
  return counts;
}

// Returns whether all is well. A campaign that accepts nothing, or never gets to the blocks, tests nothing.
bool run(Codec codec, const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Counts counts = run_codec(codec, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%-8s %llu mutations, %zu sets of kernels, %.1f s:", std::string(name_of(codec)).c_str(),
              static_cast<unsigned long long>(options.mutations), all_kernels().size(), seconds);
  for (std::size_t i = 0; i < counts.by_error.size(); ++i)
    if (counts.by_error[i] > 0)
      std::printf(" %llu %s;", static_cast<unsigned long long>(counts.by_error[i]),
                  i == 0 ? "accepted" : describe(static_cast<FrameError>(i)));
  std::printf(" %llu faults\n", static_cast<unsigned long long>(counts.faults));
  std::fflush(stdout);
  const auto count = [&counts](FrameError error) { return counts.by_error[static_cast<std::size_t>(error)]; };
  const bool reaches_deep =
      count(FrameError::none) > 0 && count(FrameError::bad_table) > 0 && count(FrameError::bad_block) > 0;
  if (!reaches_deep)
    std::fprintf(stderr, "%s: too few mutations to reach every check\n", std::string(name_of(codec)).c_str());
  return counts.faults == 0 && reaches_deep;
}

std::optional<std::uint64_t> number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' ? std::optional(value) : std::nullopt;
}

// Options come in pairs of name and value.
std::optional<Options> parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 >= count) return std::nullopt;
    const auto value = number(arguments[i + 1]);
    if (name == "--codec" && codec_named(arguments[i + 1]))
      options.codec = codec_named(arguments[i + 1]);
    else if (name == "--mutations" && value)
      options.mutations = *value;
    else if (name == "--seed" && value)
      options.seed = *value;
    else
      return std::nullopt;
  }
  return options;
}

}  // namespace
}  // namespace terrace::compression::test

int main(int count, char** arguments) {
  using namespace terrace::compression;
  const auto options = test::parse(count, arguments);
  if (!options) {
    std::fprintf(stderr, "usage: %s [--mutations N] [--seed N] [--codec NAME]\n", arguments[0]);
    return 2;
  }
  bool well = true;
  for (const Codec codec : test::every_codec)
    if (!options->codec || *options->codec == codec) well = test::run(codec, *options) && well;
  return well ? 0 : 1;
}
