// zvc where memory does not limit it: one tensor again and again, which with its frame fits into the caches
// of one core. There the checksum weighs most, so that is where its share is asked for: the same kernels run
// beside themselves without it.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "compression/compressor.h"
#include "tools/bench/compression/speed.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

using compression::ElementType;
using compression::Kernels;
using Json = nlohmann::ordered_json;

constexpr std::size_t cached_bytes = std::size_t{256} << 10;

class Tensor {
 public:
  explicit Tensor(ElementType element)
      : element_(element),
        content_(cached_bytes),
        frame_(compression::frame_bound(cached_bytes)),
        result_(cached_bytes) {
    generate_activations({.element = element}, content_);
  }

  // Bytes of content a second, over so many times.
  double compress(const Kernels& with, long times) {
    return timed(times, [&] {
      made_ = compression::compress(content_, frame_, options(), *workspace_, compression::own_codecs, with);
    });
  }
  double decompress(const Kernels& with, long times) {
    const auto frame = std::span(frame_).first(made_.bytes);
    std::fill(result_.begin(), result_.end(), std::byte{0xA5});
    auto error = compression::FrameError::none;
    const double rate = timed(times, [&] {
      error = compression::decompress(frame, result_, *workspace_, compression::own_codecs, with);
    });
    if (error == compression::FrameError::none) require_equal(result_, content_, "zvc in the caches");
    check(error);
    return rate;
  }

 private:
  compression::FrameOptions options() const {
    return {.codec = compression::Codec::zvc, .element = element_};
  }

  template <typename Work>
  double timed(long times, const Work& work) {
    const double begin = thread_s();
    for (long i = 0; i < times; ++i) work();
    const double seconds = thread_s() - begin;
    check(made_.error);
    return static_cast<double>(cached_bytes) * static_cast<double>(times) / seconds;
  }

  static void check(compression::FrameError error) {
    if (error == compression::FrameError::none) return;
    std::fprintf(stderr, "bench: zvc in the caches: %s\n", compression::describe(error));
    std::exit(1);
  }

  ElementType element_;
  std::vector<std::byte> content_, frame_, result_;
  compression::Compressed made_;
  std::unique_ptr<compression::Workspace> workspace_ = std::make_unique<compression::Workspace>();
};

Json measure(Tensor& tensor, const Kernels& with, long rounds, long times) {
  Kernels unsummed = with;
  unsummed.checksum = [](const void*, std::size_t) { return std::uint64_t{0}; };
  std::vector<double> compress, without, decompress, share;
  tensor.compress(with, times);  // first touches, clocks
  for (long round = 0; round < rounds; ++round) {
    without.push_back(tensor.compress(unsummed, times));
    compress.push_back(tensor.compress(with, times));
    decompress.push_back(tensor.decompress(with, times));
    share.push_back(1 - compress.back() / without.back());
  }
  return {{"kernels", with.name},
          {"compress_bytes_per_s", median(compress)},
          {"decompress_bytes_per_s", median(decompress)},
          {"without_checksum_bytes_per_s", median(without)},
          {"checksum_share", median(share)}};
}

}  // namespace

Json measure_in_caches(long rounds, long times) {
  Json rows = Json::array();
  for (const ElementType element : {ElementType::f32, ElementType::f16}) {
    Tensor tensor(element);
    for (const Kernels* with : compression::all_kernels()) {
      Json row = {{"name", std::string(compression::name_of(element)) + " " + with->name},
                  {"element", compression::name_of(element)},
                  {"tensor_bytes", cached_bytes}};
      row.update(measure(tensor, *with, rounds, times));
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace terrace::bench
