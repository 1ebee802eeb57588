// Which launch fits the current device.
#include "compression/cuda/launch.cuh"

namespace terrace::compression::cuda {
namespace {

constexpr unsigned most_ctas_per_unit = 8;

bool is_geometry(Geometry geometry) {
  const unsigned threads = geometry.threads;
  return (threads == 128 || threads == 256 || threads == 512) && geometry.ctas_per_unit >= 1 &&
         geometry.ctas_per_unit <= most_ctas_per_unit;
}

unsigned smaller_of(unsigned a, unsigned b) { return a < b ? a : b; }

}  // namespace

std::size_t scratch_bytes(std::uint32_t tensors, std::uint64_t blocks) {
  return scratch_sizes(tensors, blocks).total();
}

std::size_t lone_scratch_bytes(std::uint64_t content_bytes) {
  return lone_front_bytes + scratch_bytes(1, (content_bytes + block_bytes - 1) / block_bytes);
}

Status plan_launch(Geometry geometry, Launch& launch) {
  if (!is_geometry(geometry)) return Status::bad_geometry;
  int device = 0, units = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return Status::no_device;
  const unsigned in = resident_compress_ctas(geometry.threads),
                 out = resident_decompress_ctas(geometry.threads);
  if (in == 0 || out == 0) return Status::no_device;
  const auto all = static_cast<unsigned>(units);
  launch = {geometry.threads, all * smaller_of(in, geometry.ctas_per_unit),
            all * smaller_of(out, geometry.ctas_per_unit)};
  return Status::ok;
}

}  // namespace terrace::compression::cuda
