// A program whose allocations the preload of cudaMalloc has to serve, or to leave to CUDA, without changing a
// result. It is linked with the shared CUDA runtime, as the preload needs it, and compiled twice: with the
// legacy default stream, and (gpu_preload_test_per_thread) with --default-stream per-thread, which calls
// functions of other names.
//
//   cudaMalloc                                   served
//   cudaMallocAsync in a stream                  served
//   in a default stream, by several threads      served
//   in a stream that is captured                 left to CUDA: a node of the graph
//   cudaMalloc beside a capture                  served
//
// Each block is filled by one kernel and added up by another. Prints how many allocations the heap counted;
// with --through-terrace it fails unless that is the number that the table says. Without, it runs without the
// preload, too. Where the preload emulates a GPU there are no kernels and no captures: the host fills and
// adds up, the rest is the same. Ends with 77 where there is neither.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "liballoc/gpu/terrace_gpu.h"

namespace {

std::atomic<unsigned> to_serve{0};

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

bool is_emulated() {
  const char* gpu = std::getenv("TERRACE_GPU");
  return gpu != nullptr && std::strncmp(gpu, "emulated", 8) == 0;
}

__global__ void fill_kernel(unsigned* words, std::size_t count, unsigned value) {
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) words[i] = value + static_cast<unsigned>(i);
}

__global__ void add_kernel(const unsigned* words, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) mine += words[i];
  atomicAdd(sum, mine);
}

unsigned long long sum_of(std::size_t count, unsigned value) {
  unsigned long long sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += value + static_cast<unsigned>(i);
  return sum;
}

constexpr unsigned threads = 512;

// A sum that kernels add to: in pinned host memory, of which the preload knows nothing.
class Sum {
 public:
  Sum() {
    if (!is_emulated()) require(cudaMallocHost(&words_, sizeof(*words_)), "cudaMallocHost");
    *words_ = 0;
  }
  ~Sum() {
    if (!is_emulated()) cudaFreeHost(words_);
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;

  unsigned long long* at() { return words_; }
  void require_is(unsigned long long wanted) const { require(*words_ == wanted, "a block has other words"); }

 private:
  unsigned long long own_ = 0, *words_ = &own_;
};

// Fills a block and adds it up in the stream.
void use(unsigned* block, std::size_t count, unsigned value, Sum& sum, cudaStream_t stream) {
  if (is_emulated()) {
    for (std::size_t i = 0; i < count; ++i) block[i] = value + static_cast<unsigned>(i);
    for (std::size_t i = 0; i < count; ++i) *sum.at() += block[i];
    return;
  }
  fill_kernel<<<1, threads, 0, stream>>>(block, count, value);
  add_kernel<<<1, threads, 0, stream>>>(block, count, sum.at());
  require(cudaGetLastError(), "a launch");
}

void finish(cudaStream_t stream) {
  if (!is_emulated()) require(cudaStreamSynchronize(stream), "waiting for a stream");
}

constexpr std::size_t sizes[] = {1, 1000, 300'000, 1 << 20, 77};  // in words

void by_malloc() {
  for (const std::size_t count : sizes) {
    Sum sum;
    unsigned* block = nullptr;
    require(cudaMalloc(&block, count * sizeof(unsigned)), "cudaMalloc");
    ++to_serve;
    use(block, count, 3, sum, nullptr);
    finish(nullptr);
    sum.require_is(sum_of(count, 3));
    require(cudaFree(block), "cudaFree");
  }
}

// Each block is freed behind the work that uses it and may become the next one.
void in_stream(cudaStream_t stream, unsigned value) {
  for (unsigned round = 0; round < 20; ++round)
    for (const std::size_t count : sizes) {
      Sum sum;
      unsigned* block = nullptr;
      require(cudaMallocAsync(&block, count * sizeof(unsigned), stream), "cudaMallocAsync");
      ++to_serve;
      use(block, count, value + round, sum, stream);
      require(cudaFreeAsync(block, stream), "cudaFreeAsync");
      finish(stream);
      sum.require_is(sum_of(count, value + round));
    }
}

void in_own_stream() {
  cudaStream_t stream = nullptr;
  if (!is_emulated()) require(cudaStreamCreate(&stream), "cudaStreamCreate");
  in_stream(stream, 5);
  if (!is_emulated()) require(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

// Each thread's default stream, or the one of all.
void in_default_streams() {
  std::vector<std::exception_ptr> failures(4);
  std::vector<std::thread> crew;
  for (unsigned i = 0; i < failures.size(); ++i)
    crew.emplace_back([&failures, i] {
      try {
        in_stream(nullptr, 1000 * i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  for (std::thread& thread : crew) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

// What is captured allocates and frees by itself; a block from before is used, and one that is allocated
// meanwhile.
void record(cudaStream_t stream, unsigned* before, unsigned** meanwhile, std::size_t count, Sum& sum) {
  unsigned* inside = nullptr;
  require(cudaMallocAsync(&inside, count * sizeof(unsigned), stream), "cudaMallocAsync in a capture");
  require(cudaMalloc(meanwhile, count * sizeof(unsigned)), "cudaMalloc beside a capture");
  ++to_serve;
  use(inside, count, 7, sum, stream);
  use(before, count, 8, sum, stream);
  use(*meanwhile, count, 9, sum, stream);
  require(cudaFreeAsync(inside, stream), "cudaFreeAsync in a capture");
}

void around_a_capture() {
  constexpr std::size_t count = 300'000;
  Sum sum;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  unsigned *before = nullptr, *meanwhile = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  require(cudaMalloc(&before, count * sizeof(unsigned)), "cudaMalloc");
  ++to_serve;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing");
  record(stream, before, &meanwhile, count, sum);
  require(cudaStreamEndCapture(stream, &graph), "capturing");
  require(cudaGraphInstantiate(&replay, graph, 0), "a graph");
  const unsigned long long once = sum_of(count, 7) + sum_of(count, 8) + sum_of(count, 9);
  for (unsigned i = 1; i <= 5; ++i) {
    require(cudaGraphLaunch(replay, stream), "a replay");
    in_stream(stream, 11);  // other allocations between the replays
    sum.require_is(i * once);
  }
  require(cudaGraphExecDestroy(replay), "a graph");
  require(cudaGraphDestroy(graph), "a graph");
  require(cudaFree(before), "cudaFree");
  require(cudaFree(meanwhile), "cudaFree");
  require(cudaStreamDestroy(stream), "a stream");
}

// What Terrace's heap counted; -1 where none was loaded.
long allocations_counted() {
  void* library = dlopen("libterrace_gpu.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return -1;
  const auto ask =
      reinterpret_cast<decltype(&terrace_gpu_get_statistics)>(dlsym(library, "terrace_gpu_get_statistics"));
  terrace_gpu_statistics counts{};
  counts.size = sizeof(counts);
  require(ask != nullptr && ask(0, &counts) == 0, "the heap gives no statistics");
  return static_cast<long>(counts.allocations);
}

int run(bool through_terrace) {
  int devices = 0;
  if (!is_emulated() && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
    std::puts("SKIP: no GPU that the CUDA runtime can use");
    return 77;
  }
  by_malloc();
  in_own_stream();
  in_default_streams();
  if (!is_emulated()) around_a_capture();
  const long counted = allocations_counted();
  std::printf("every block held its words; of %u allocations to serve Terrace counted %ld\n", to_serve.load(),
              counted);
  return !through_terrace || counted == static_cast<long>(to_serve) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 && std::strcmp(argv[1], "--through-terrace") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_preload_test: %s\n", error.what());
    return 1;
  }
}
