// What is read here was written by another program and may be anything: every field is checked, sizes are
// bounded, and a file's name cannot leave the directory. The tensors of a network are fewer bytes than a
// large cache, so DRAM is had by flushing each of them, line by line, before it is used; the flush is not in
// the time.
#include "tools/bench/compression/captured.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "tools/bench/activations/activations.h"
#include "tools/bench/compression/contenders.h"
#include "tools/bench/compression/memory.h"
#include "tools/bench/compression/speed.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t largest_tensor = std::size_t{1} << 30;  // lz4 counts in int
constexpr std::size_t most_bytes = std::size_t{8} << 30;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  std::fprintf(stderr, "bench: --captured: %s: %s; make it anew with capture_activations.py\n", file.c_str(),
               why.c_str());
  std::exit(1);
}

Json read_index(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse(path, "cannot be read");
  Json index = Json::parse(file, nullptr, false);
  if (!index.is_object() || index.value("format", Json()) != "terrace-activations" ||
      index.value("version", Json()) != 1 || !index.value("tensors", Json()).is_array())
    refuse(path, "not an index of captured activations, version 1");
  return index;
}

std::string text_of(const Json& entry, const char* field, const std::string& index) {
  const Json value = entry.is_object() ? entry.value(field, Json()) : Json();
  if (!value.is_string()) refuse(index, std::string("a tensor without ") + field);
  return value;
}

CapturedTensor load(const std::string& path, const Json& declared) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) refuse(path, error.message());
  if (bytes == 0 || bytes % sizeof(float) != 0 || bytes > largest_tensor)
    refuse(path, "not a number of floats from 1 to 2^28");
  if (declared != bytes) refuse(path, "another size than index.json says");
  CapturedTensor tensor{bytes, std::make_unique<Buffer>(bytes)};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(tensor.content->bytes().data()),
                 static_cast<std::streamsize>(bytes)))
    refuse(path, "cannot be read");
  return tensor;
}

CapturedNetwork& group_for(std::vector<CapturedNetwork>& groups, const std::string& network,
                           const std::string& weights) {
  for (CapturedNetwork& group : groups)
    if (group.network == network && group.weights == weights) return group;
  return groups.emplace_back(CapturedNetwork{network, weights, {}});
}

// Seconds and bytes of one contender over one group.
struct Sums {
  double compress_s = 0;
  double decompress_s = 0;
  double bytes = 0;
  double compressed = 0;
};

void run_tensor(const Contender& contender, const CapturedTensor& tensor, std::span<std::byte> frame,
                std::span<std::byte> result, Sums* sums) {
  flush_from_caches(tensor.data());
  flush_from_caches(frame);
  double begin = thread_s();
  const std::size_t made = contender.compress(tensor.data(), frame);
  sums->compress_s += thread_s() - begin;
  std::memset(result.data(), 0xA5, result.size());
  flush_from_caches(result);
  flush_from_caches(frame);
  begin = thread_s();
  const bool fine = made != 0 && contender.decompress(frame.first(made), result);
  sums->decompress_s += thread_s() - begin;
  require_equal(fine ? result : std::span<std::byte>(), tensor.data(), contender.name);
  sums->bytes += static_cast<double>(tensor.bytes);
  sums->compressed += static_cast<double>(made);
}

Contender plain_copy() {
  const auto copy = [](std::span<const std::byte> from, std::span<std::byte> to) {
    std::memcpy(to.data(), from.data(), from.size());
    return from.size();
  };
  return {"memcpy", copy, [copy](std::span<const std::byte> from, std::span<std::byte> to) {
            return copy(from, to) == to.size();
          }};
}

Json measure_contender(const Contender& contender, const CapturedNetwork& group, const Buffer& frame,
                       const Buffer& result, long rounds) {
  std::vector<double> compress;
  std::vector<double> decompress;
  Sums sums;
  for (long round = 0; round < rounds; ++round) {
    sums = {};
    for (const CapturedTensor& tensor : group.tensors)
      run_tensor(contender, tensor, frame.bytes().first(frame_room(tensor.bytes)),
                 result.bytes().first(tensor.bytes), &sums);
    compress.push_back(sums.bytes / sums.compress_s);
    decompress.push_back(sums.bytes / sums.decompress_s);
  }
  return {{"name", contender.name},
          {"ratio", sums.bytes / sums.compressed},
          {"compress_bytes_per_s", median(compress)},
          {"decompress_bytes_per_s", median(decompress)}};
}

Json measure_group(const CapturedNetwork& group, const Buffer& frame, const Buffer& result, long rounds) {
  double bytes = 0;
  double zeros = 0;
  double runs = 0;
  for (const CapturedTensor& tensor : group.tensors) {
    const ZeroStatistics statistics = zero_statistics(tensor.data(), sizeof(float), 0);
    const double elements = static_cast<double>(tensor.bytes) / sizeof(float);
    bytes += static_cast<double>(tensor.bytes);
    zeros += statistics.sparsity * elements;
    if (statistics.mean_zero_run > 0) runs += statistics.sparsity * elements / statistics.mean_zero_run;
  }
  Json json = {{"network", group.network},
               {"weights", group.weights},
               {"tensors", group.tensors.size()},
               {"bytes", bytes},
               {"sparsity", zeros / (bytes / sizeof(float))},
               {"mean_zero_run", runs > 0 ? zeros / runs : 0}};
  json["contenders"].push_back(measure_contender(plain_copy(), group, frame, result, rounds));
  for (const Contender& contender : main_contenders(compression::ElementType::f32))
    json["contenders"].push_back(measure_contender(contender, group, frame, result, rounds));
  return json;
}

}  // namespace

std::vector<CapturedNetwork> load_captured(const std::string& directory) {
  const std::string index_path = directory + "/index.json";
  const Json index = read_index(index_path);
  std::vector<CapturedNetwork> groups;
  std::size_t total = 0;
  for (const Json& entry : index["tensors"]) {
    const std::string file = text_of(entry, "file", index_path);
    if (file.find('/') != std::string::npos) refuse(index_path, "a file outside the directory: " + file);
    if (text_of(entry, "element", index_path) != "f32") refuse(index_path, file + " is not of f32");
    CapturedTensor tensor = load(std::filesystem::path(directory) / file, entry.value("bytes", Json()));
    total += tensor.bytes;
    if (total > most_bytes) refuse(index_path, "more than 8 GiB of tensors");
    group_for(groups, text_of(entry, "network", index_path), text_of(entry, "weights", index_path))
        .tensors.push_back(std::move(tensor));
  }
  if (groups.empty()) refuse(index_path, "no tensors");
  return groups;
}

Json measure_captured(const std::vector<CapturedNetwork>& networks, long rounds) {
  std::size_t largest = 0;
  for (const CapturedNetwork& group : networks)
    for (const CapturedTensor& tensor : group.tensors) largest = std::max(largest, tensor.bytes);
  const Buffer frame(frame_room(largest));
  const Buffer result(largest);
  Json all;
  for (const CapturedNetwork& group : networks) all.push_back(measure_group(group, frame, result, rounds));
  return all;
}

}  // namespace terrace::bench
