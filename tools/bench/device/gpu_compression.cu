// terrace-bench-gpu-compression: how fast the kernels of compression/cuda are, against what the device's
// memory and its link allow in the same run.
//
// The roofline of a pass that reads N bytes and writes c N is B / (1 + c), with B the bytes a second that a
// copy on the device reads and writes. Calls are captured in graphs and replayed between two events; a figure
// is the median of the replays. Values are half-normal, zeros come in runs of 6 (real ReLU outputs: 5 to 8).
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "compression/cuda/compression_cuda.h"
#include "compression/tuner/tuner.h"
#include "tools/bench/device/device_memory.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

namespace cuda = compression::cuda;
using compression::Codec;
using compression::ElementType;
using Json = nlohmann::json;

constexpr const char* usage = R"(usage: terrace bench gpu-compression [options]

Compresses and decompresses tensors on the first GPU, with each of the GPU's codecs.

  --mib N          the largest tensor has so many MiB, from 64 to 16384 (1024)
  --replays N      time each kernel so often, 3 at least (20)
  --commit TEXT    the figures name this commit
  --json FILE      write all figures into this file)";

constexpr double giga = 1e9;

__device__ std::uint64_t mixed(std::uint64_t v) {
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
  v = (v ^ v >> 27) * 0x94d049bb133111eb;
  return v ^ v >> 31;
}

__device__ float half_normal(std::uint64_t random) {
  const float u = (static_cast<float>(random >> 40) + 1) / 16777217.0F;
  const float angle = static_cast<float>(random & 0xffffff) / 16777216.0F;
  return fabsf(sqrtf(-2 * logf(u)) * cospif(2 * angle));
}

// f32, or with `halves` the upper halves of f32, which is bf16. A share `zeros` of the elements is zero.
template <typename T>
__global__ void fill_kernel(T* to, std::uint64_t elements, float zeros, std::uint64_t seed) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += stride) {
    const bool zero = static_cast<float>(mixed(i / 6 + seed) >> 40) < zeros * 16777216.0F;
    const std::uint32_t bits = __float_as_uint(half_normal(mixed(i * 2 + 1 + seed * 77)));
    to[i] = zero ? T{0} : static_cast<T>(sizeof(T) == 2 ? bits >> 16 : bits);
  }
}

void fill(const DeviceMemory& memory, ElementType element, double zeros, std::uint64_t seed) {
  const std::size_t width = width_of(element), n = memory.bytes() / width;
  if (width == 2)
    fill_kernel<<<1024, 256>>>(memory.at<std::uint16_t>(), n, static_cast<float>(zeros), seed);
  else
    fill_kernel<<<1024, 256>>>(memory.at<std::uint32_t>(), n, static_cast<float>(zeros), seed);
  require_cuda(cudaDeviceSynchronize(), "filling");
}

__global__ void compare_kernel(const std::uint64_t* a, const std::uint64_t* b, std::uint64_t words,
                               unsigned* differ) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += stride)
    if (a[i] != b[i]) *differ = 1;
}

// Every byte, on the device; both of the same size, a multiple of 8.
bool are_equal(const DeviceMemory& a, const DeviceMemory& b) {
  DeviceMemory differ(sizeof(unsigned), DeviceMemory::Place::pinned);
  *differ.at<unsigned>() = 0;
  compare_kernel<<<1024, 256>>>(a.at<const std::uint64_t>(), b.at<const std::uint64_t>(), a.bytes() / 8,
                                differ.at<unsigned>());
  require_cuda(cudaDeviceSynchronize(), "comparing");
  return *differ.at<unsigned>() == 0;
}

// What is measured: enqueues work on a stream.
using Work = std::function<void(cudaStream_t)>;

class Stopwatch {
 public:
  explicit Stopwatch(int replays) : replays_(replays) {
    require_cuda(cudaStreamCreate(&stream_), "a stream");
    require_cuda(cudaEventCreate(&begin_), "an event");
    require_cuda(cudaEventCreate(&end_), "an event");
  }

  // Seconds of the work in a stream, as the offload engine enqueues it; a first few are not counted.
  double seconds_in_stream(const Work& work) {
    std::vector<double> times;
    for (int i = -2; i < replays_; ++i) {
      const double time = one([&] { work(stream_); });
      if (i >= 0) times.push_back(time);
    }
    return median(times);
  }

  // Seconds of one replay; a first few are not counted.
  double seconds(const Work& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    require_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "capturing");
    work(stream_);
    require_cuda(cudaStreamEndCapture(stream_, &graph), "capturing");
    require_cuda(cudaGraphInstantiate(&replay, graph, 0), "a graph");
    std::vector<double> times;
    for (int i = -2; i < replays_; ++i) {
      const double time = one([&] { require_cuda(cudaGraphLaunch(replay, stream_), "a replay"); });
      if (i >= 0) times.push_back(time);
    }
    require_cuda(cudaGraphExecDestroy(replay), "a graph");
    require_cuda(cudaGraphDestroy(graph), "a graph");
    return median(times);
  }

 private:
  double one(const std::function<void()>& enqueue) {
    float ms = 0;
    require_cuda(cudaEventRecord(begin_, stream_), "an event");
    enqueue();
    require_cuda(cudaEventRecord(end_, stream_), "an event");
    require_cuda(cudaEventSynchronize(end_), "a replay");
    require_cuda(cudaEventElapsedTime(&ms, begin_, end_), "an event");
    return static_cast<double>(ms) / 1e3;
  }

  int replays_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

void require_ok(cuda::Status status, const char* what) {
  if (status != cuda::Status::ok) throw std::runtime_error(std::string(what) + ": " + cuda::describe(status));
}

struct Form {
  std::size_t bytes;
  std::size_t count = 1;
  Codec codec = Codec::zvc;
  ElementType element = ElementType::f32;
  double zeros = 0.62;
  DeviceMemory::Place frames = DeviceMemory::Place::device;
};

// `count` tensors of one form with all that compressing and decompressing them takes.
class Tensors {
 public:
  explicit Tensors(const Form& form)
      : form_(form),
        content_(form.bytes * form.count),
        back_(form.bytes * form.count),
        frames_(stride() * form.count, form.frames),
        sources_(form.count * sizeof(cuda::Source)),
        targets_(form.count * sizeof(cuda::Target)),
        results_(form.count * sizeof(cuda::Result), DeviceMemory::Place::pinned),
        scratch_(cuda::scratch_bytes(static_cast<std::uint32_t>(form.count),
                                     form.count * (form.bytes / 65536 + 1))),
        lone_scratch_(cuda::lone_scratch_bytes(form.bytes)),
        verdict_(sizeof(cuda::Verdict), DeviceMemory::Place::pinned) {
    fill(content_, form.element, form.zeros, 1);
    std::vector<cuda::Source> sources;
    for (std::size_t i = 0; i < form.count; ++i)
      sources.push_back({content_.at(i * form.bytes), frames_.at(i * stride()), form.bytes, stride(), 0,
                         form.codec, form.element, 4});
    blocks_ = cuda::number_blocks(sources);
    sources_.write(sources.data(), sources_.bytes());
  }

  void compress(const cuda::Launch& launch, cudaStream_t stream) {
    require_ok(cuda::compress({sources_.at<cuda::Source>(), count(), blocks_, results_.at<cuda::Result>(),
                               scratch_.at<void>(), scratch_.bytes()},
                              launch, stream),
               "compress");
  }
  void decompress(const cuda::Launch& launch, cudaStream_t stream) {
    require_ok(cuda::decompress({targets_.at<cuda::Target>(), count(), blocks_, results_.at<cuda::Result>(),
                                 scratch_.at<void>(), scratch_.bytes()},
                                launch, stream),
               "decompress");
  }

  // The first tensor by itself, as the offload engine calls it.
  void compress_lone(const cuda::Launch& launch, cudaStream_t stream) {
    const cuda::Source source{
        content_.at(), frames_.at(), form_.bytes, stride(), 0, form_.codec, form_.element, 4};
    require_ok(cuda::compress_lone(source, lone_memory(), launch, stream), "compress_lone");
  }
  void decompress_lone(const cuda::Launch& launch, cudaStream_t stream) {
    const cuda::Target target{frames_.at(), back_.at(), frame_bytes_, form_.bytes, 0};
    require_ok(cuda::decompress_lone(target, lone_memory(), launch, stream), "decompress_lone");
  }
  // Lets what follows check what the last of these two calls told.
  void take_lone_result() {
    require_cuda(cudaDeviceSynchronize(), "a lone tensor");
    results_.at<cuda::Result>()[0] = verdict_.at<cuda::Verdict>()->result;
  }

  // Throws unless the last compress() succeeded. Prepares decompress(), and returns the frames' bytes.
  std::uint64_t require_frames() {
    require_results();
    std::vector<cuda::Target> targets;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < form_.count; ++i) {
      const std::uint64_t bytes = results_.at<cuda::Result>()[i].bytes;
      targets.push_back({frames_.at(i * stride()), back_.at(i * form_.bytes), bytes, form_.bytes, 0});
      sum += bytes;
    }
    frame_bytes_ = targets.front().frame_bytes;
    cuda::number_blocks(targets);
    targets_.write(targets.data(), targets_.bytes());
    return sum;
  }

  // Throws unless what was decompressed last is the content.
  void require_equal() {
    require_results();
    if (!are_equal(content_, back_))
      throw std::runtime_error("what was decompressed differs from what was compressed");
  }

  // Before calls are timed: what is checked after them is then theirs.
  void forget_frames() {
    frames_.fill(0xcd);
    forget_results();
  }
  void forget_decompressed() {
    back_.fill(0xcd);
    forget_results();
  }

  // Throws unless the frames that were compressed last hold the content; returns their bytes.
  std::uint64_t require_sound(const cuda::Launch& launch) {
    const std::uint64_t bytes = require_frames();
    forget_decompressed();
    decompress(launch, nullptr);
    require_equal();
    return bytes;
  }

  std::uint64_t content_bytes() const { return content_.bytes(); }

 private:
  cuda::LoneMemory lone_memory() const {
    return {lone_scratch_.at<void>(), lone_scratch_.bytes(), verdict_.at<cuda::Verdict>()};
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(form_.count); }
  std::size_t stride() const { return (compression::frame_bound(form_.bytes) + 255) / 256 * 256; }
  void forget_results() {
    require_cuda(cudaDeviceSynchronize(), "waiting");
    const cuda::Result none{0, compression::FrameError::truncated};
    std::fill_n(results_.at<cuda::Result>(), form_.count, none);
    verdict_.at<cuda::Verdict>()->result = none;
  }
  void require_results() {
    require_cuda(cudaDeviceSynchronize(), "compressing");
    for (std::size_t i = 0; i < form_.count; ++i)
      if (results_.at<cuda::Result>()[i].error != compression::FrameError::none)
        throw std::runtime_error(compression::describe(results_.at<cuda::Result>()[i].error));
  }

  Form form_;
  DeviceMemory content_, back_, frames_, sources_, targets_, results_, scratch_, lone_scratch_, verdict_;
  std::uint64_t frame_bytes_ = 0;  // of the first
  std::uint64_t blocks_ = 0;
};

// Bytes read and written a second by a copy on the device.
double copy_bandwidth(Stopwatch& stopwatch, std::size_t bytes) {
  const DeviceMemory from(bytes), to(bytes);
  const double s = stopwatch.seconds([&](cudaStream_t stream) {
    require_cuda(cudaMemcpyAsync(to.at(), from.at(), bytes, cudaMemcpyDeviceToDevice, stream), "copying");
  });
  return 2.0 * static_cast<double>(bytes) / s;
}

double link_bandwidth(Stopwatch& stopwatch, std::size_t bytes) {
  const DeviceMemory from(bytes), to(bytes, DeviceMemory::Place::pinned);
  const double s = stopwatch.seconds([&](cudaStream_t stream) {
    require_cuda(cudaMemcpyAsync(to.at(), from.at(), bytes, cudaMemcpyDeviceToHost, stream), "copying");
  });
  return static_cast<double>(bytes) / s;
}

Json describe_form(const Form& form) {
  return {{"bytes", form.bytes},
          {"tensors", form.count},
          {"codec", name_of(form.codec)},
          {"element", name_of(form.element)},
          {"zeros", form.zeros}};
}

Json measure_form(Stopwatch& stopwatch, const cuda::Launch& launch, const Form& form, double copy) {
  Tensors tensors(form);
  const auto bytes = static_cast<double>(tensors.content_bytes());
  tensors.forget_frames();
  const double in = stopwatch.seconds([&](cudaStream_t stream) { tensors.compress(launch, stream); });
  const double share = static_cast<double>(tensors.require_frames()) / bytes;
  tensors.forget_decompressed();
  const double out = stopwatch.seconds([&](cudaStream_t stream) { tensors.decompress(launch, stream); });
  tensors.require_equal();
  Json json = describe_form(form);
  json["ratio"] = 1 / share;
  json["compress_gb_per_s"] = bytes / in / giga;
  json["decompress_gb_per_s"] = bytes / out / giga;
  json["roofline_gb_per_s"] = copy / (1 + share) / giga;
  std::printf(
      "%5zu x %8.2f MiB  %-8s %-5s zeros %.2f  ratio %5.2f  compress %7.1f  decompress %7.1f  roofline %7.1f "
      "GB/s\n",
      form.count, static_cast<double>(form.bytes) / (1 << 20), std::string(name_of(form.codec)).c_str(),
      std::string(name_of(form.element)).c_str(), form.zeros, 1 / share, bytes / in / giga,
      bytes / out / giga, copy / (1 + share) / giga);
  return json;
}

// One tensor after the other on one stream, each of its own so that none is in the cache: a lone tensor's
// time.
Json measure_lone(Stopwatch& stopwatch, const cuda::Launch& launch, const Form& form) {
  constexpr std::size_t calls = 64;
  std::vector<Tensors> tensors;
  tensors.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) tensors.emplace_back(form);
  for (Tensors& tensor : tensors) tensor.forget_frames();
  const double in = stopwatch.seconds_in_stream([&](cudaStream_t stream) {
    for (Tensors& tensor : tensors) tensor.compress_lone(launch, stream);
  });
  for (Tensors& tensor : tensors) {
    tensor.take_lone_result();
    tensor.require_frames();
    tensor.forget_decompressed();
  }
  const double out = stopwatch.seconds_in_stream([&](cudaStream_t stream) {
    for (Tensors& tensor : tensors) tensor.decompress_lone(launch, stream);
  });
  for (Tensors& tensor : tensors) {
    tensor.take_lone_result();
    tensor.require_equal();
  }
  Json json = describe_form(form);
  json["compress_gb_per_s"] = static_cast<double>(form.bytes) * calls / in / giga;
  json["decompress_gb_per_s"] = static_cast<double>(form.bytes) * calls / out / giga;
  std::printf("lone %.2f MiB: compress %.1f, decompress %.1f GB/s\n",
              static_cast<double>(form.bytes) / (1 << 20), json["compress_gb_per_s"].get<double>(),
              json["decompress_gb_per_s"].get<double>());
  return json;
}

// Straight into pinned memory: the frame's bytes a second against those of a copy.
Json measure_fused(Stopwatch& stopwatch, const cuda::Launch& launch, std::size_t bytes, double link) {
  Tensors tensors({.bytes = bytes, .frames = DeviceMemory::Place::pinned});
  tensors.forget_frames();
  const double s = stopwatch.seconds([&](cudaStream_t stream) { tensors.compress(launch, stream); });
  const auto frame = static_cast<double>(tensors.require_sound(launch));
  std::printf("to the host: %.1f GB/s of frames, %.1f of tensors; a copy %.1f GB/s\n", frame / s / giga,
              static_cast<double>(bytes) / s / giga, link / giga);
  return {{"bytes", bytes},
          {"frame_gb_per_s", frame / s / giga},
          {"tensor_gb_per_s", static_cast<double>(bytes) / s / giga},
          {"share_of_link", frame / s / link}};
}

Json measure_relu(Stopwatch& stopwatch, std::size_t bytes, double copy) {
  const DeviceMemory x(bytes), mask(bytes / 32);
  DeviceMemory y(bytes);
  fill(x, ElementType::f32, 0.62, 3);
  const std::uint64_t n = bytes / 4;
  const double in = stopwatch.seconds([&](cudaStream_t stream) {
    require_ok(cuda::relu_binarize(ElementType::f32, x.at(), y.at(), mask.at<std::uint64_t>(), n, stream),
               "relu");
  });
  const auto require_x = [&] {  // which has no negative element, so that it is its own ReLU
    if (!are_equal(x, y)) throw std::runtime_error("relu made something else");
    y.fill(0xcd);
  };
  require_x();
  const double out = stopwatch.seconds([&](cudaStream_t stream) {
    require_ok(
        cuda::relu_backward(ElementType::f32, mask.at<const std::uint64_t>(), x.at(), y.at(), n, stream),
        "relu");
  });
  require_x();
  // Both move 2 + 1/32 bytes for each byte of the tensor.
  const double roofline = copy / (2 + 1.0 / 32);
  const auto rate = [&](double s) { return static_cast<double>(bytes) / s; };
  std::printf("relu with binarize: %.1f forward, %.1f backward, roofline %.1f GB/s\n", rate(in) / giga,
              rate(out) / giga, roofline / giga);
  return {{"forward_gb_per_s", rate(in) / giga},
          {"backward_gb_per_s", rate(out) / giga},
          {"roofline_gb_per_s", roofline / giga}};
}

// Every geometry once, then the tuner over the same costs.
Json measure_geometries(Stopwatch& stopwatch, std::size_t bytes) {
  const std::vector<compression::Parameter> space = {{"threads", {128, 256, 512}},
                                                     {"ctas_per_unit", {1, 2, 3, 4, 5}, false}};
  Tensors tensors({.bytes = bytes});
  Json all = Json::array();
  const auto cost = [&](const compression::Point& p) {
    const cuda::Geometry geometry{static_cast<unsigned>(space[0].values[p[0]]),
                                  static_cast<unsigned>(space[1].values[p[1]])};
    cuda::Launch launch;
    require_ok(cuda::plan_launch(geometry, launch), "planning");
    tensors.forget_frames();
    const double s = stopwatch.seconds([&](cudaStream_t stream) { tensors.compress(launch, stream); });
    tensors.require_sound(launch);
    return s;
  };
  double best = INFINITY;
  for (std::size_t threads = 0; threads < 3; ++threads)
    for (std::size_t ctas = 0; ctas < 5; ++ctas) {
      const double s = cost({threads, ctas});
      best = std::min(best, s);
      all.push_back({{"threads", space[0].values[threads]},
                     {"ctas_per_unit", space[1].values[ctas]},
                     {"compress_gb_per_s", static_cast<double>(bytes) / s / giga}});
    }
  const auto tuned = compression::tune(space, cost);
  if (!tuned) throw std::runtime_error("no geometry runs");
  const double found = cost(tuned->best);
  std::printf("tuned: %g threads, %g CTAs after %zu trials of %zu, %.3f times the best time\n",
              space[0].values[tuned->best[0]], space[1].values[tuned->best[1]], tuned->trials, all.size(),
              found / best);
  return {{"all", all},
          {"threads", space[0].values[tuned->best[0]]},
          {"ctas_per_unit", space[1].values[tuned->best[1]]},
          {"trials", tuned->trials},
          {"time_over_best", found / best}};
}

std::vector<Form> forms(std::size_t largest) {
  std::vector<Form> all;
  for (const std::size_t bytes : {std::size_t{64} << 20, largest})
    for (const ElementType element : {ElementType::f32, ElementType::bf16})
      all.push_back({.bytes = bytes, .element = element});
  for (const double zeros : {0.0, 0.5, 0.8, 0.95}) all.push_back({.bytes = largest, .zeros = zeros});
  for (const Codec codec : {Codec::zvc_exp, Codec::rle, Codec::csr8})
    for (const ElementType element : {ElementType::f32, ElementType::bf16})
      all.push_back({.bytes = largest, .codec = codec, .element = element});
  for (const Codec codec : {Codec::rle, Codec::csr8})
    all.push_back({.bytes = largest, .codec = codec, .zeros = 0.95});
  all.push_back({.bytes = 1 << 20, .count = 1000});
  return all;
}

Json describe_device() {
  cudaDeviceProp p{};
  require_cuda(cudaGetDeviceProperties(&p, 0), "the device");
  int driver = 0;
  require_cuda(cudaDriverGetVersion(&driver), "the driver");
  return {{"name", p.name},
          {"multiprocessors", p.multiProcessorCount},
          {"memory_bytes", p.totalGlobalMem},
          {"l2_bytes", p.l2CacheSize},
          {"capability", std::to_string(p.major) + "." + std::to_string(p.minor)},
          {"driver", driver},
          {"runtime", CUDART_VERSION}};
}

Json measure_all(int replays, std::size_t largest) {
  Stopwatch stopwatch(replays);
  cuda::Launch launch;
  require_ok(cuda::plan_launch({}, launch), "planning");
  const double copy = copy_bandwidth(stopwatch, largest),
               link = link_bandwidth(stopwatch, std::size_t{256} << 20);
  std::printf("copy on the device %.1f GB/s read and written, to the host %.1f GB/s\n", copy / giga,
              link / giga);
  Json tensors = Json::array();
  for (const Form& form : forms(largest)) tensors.push_back(measure_form(stopwatch, launch, form, copy));
  return {{"copy_gb_per_s", copy / giga},
          {"link_gb_per_s", link / giga},
          {"tensors", tensors},
          {"lone", measure_lone(stopwatch, launch, {.bytes = 2 << 20})},
          {"fused", measure_fused(stopwatch, launch, std::size_t{256} << 20, link)},
          {"relu", measure_relu(stopwatch, largest, copy)},
          {"geometries", measure_geometries(stopwatch, std::size_t{256} << 20)}};
}

std::string command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i > 0 ? " " : "") + std::string(argv[i]);
  return line;
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv, {"--replays", "--mib", "--commit", "--json"}, usage);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("SKIP: no GPU that the CUDA runtime can use");
    return 77;
  }
  const auto largest = static_cast<std::size_t>(arguments.number("--mib", 1024, 64, 16384)) << 20;
  const Json figures = measure_all(static_cast<int>(arguments.number("--replays", 20, 3, 1000)), largest);
  const Json report = {{"device", describe_device()},
                       {"machine", describe_machine()},
                       {"commit", arguments.text("--commit", "unknown")},
                       {"command", command_line(argc, argv)},
                       {"figures", figures}};
  if (const std::string path = arguments.text("--json", ""); !path.empty()) write_json(path, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) { return terrace::bench::run_as_program(terrace::bench::run, argc, argv); }
