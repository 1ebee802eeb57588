// A GPU of NVIDIA's behind device.h, over the driver's functions (cuda_driver.h).
//
// Memory is CUDA's virtual memory management (driver API, "Virtual Memory Management"): cuMemCreate makes a
// frame, cuMemMap and cuMemSetAccess put it into a reserved range. Frames carry the GPUDirect RDMA flag where
// the device can, without which GPUDirect Storage refuses them. Frames in host memory need a driver that
// makes them (HOST since CUDA 12.8, HOST_NUMA since 12.2, each a device attribute): elsewhere
// create_frame(host) is ENOTSUP.
//
// The program's primary context is retained, so that pointers and streams are those of the CUDA runtime and
// of PyTorch. Each call makes it current for its duration; the calling thread's own context is as before
// afterwards. Streams do not synchronise with the default stream; events have no timing, and the host sleeps
// on them.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "tiers/gpu/address_table.h"
#include "tiers/gpu/cuda_driver.h"
#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {

class CudaDevice final : public Device {
 public:
  CudaDevice() = default;
  ~CudaDevice() override;
  // 0, or ENODEV with the reason.
  int open(const CudaDriver* driver, int index, std::string* reason);

  Kind kind() const noexcept override { return Kind::cuda; }
  std::string_view name() const noexcept override { return name_; }
  std::string_view identity() const noexcept override { return identity_; }
  std::uint64_t frame_bytes() const noexcept override;
  Memory memory() const noexcept override;
  int host_node() const noexcept override;

  int reserve_address(std::uint64_t bytes, std::byte** out) noexcept override;
  int release_address(std::byte* base, std::uint64_t bytes) noexcept override;
  int create_frame(Place place, Frame* out) noexcept override;
  int destroy_frame(Frame frame) noexcept override;
  int map(std::byte* at, std::span<const Frame> frames) noexcept override;
  int unmap(std::byte* at, std::uint64_t bytes) noexcept override;

  int pin(void* host, std::uint64_t bytes) noexcept override;
  int unpin(void* host) noexcept override;

  int create_stream(Stream* out) noexcept override;
  int destroy_stream(Stream stream) noexcept override;
  int create_event(Event* out) noexcept override;
  int destroy_event(Event event) noexcept override;
  int record(Event event, Stream stream) noexcept override;
  int wait(Stream stream, Event event) noexcept override;
  int query(Event event) noexcept override;
  int synchronize(Event event) noexcept override;

  int copy(Stream stream, void* to, const void* from, std::uint64_t bytes, Way way) noexcept override;
  int launch(Stream stream, const Kernel& kernel) noexcept override;
  int call_host(Stream stream, void (*function)(void*), void* argument) noexcept override;

  const char* error_text() const noexcept override;
  void relax_stream_capture() noexcept override;

 private:
  class Current;  // makes the context current, and restores

  int attribute(CUdevice_attribute which) const noexcept;  // 0 where the driver does not know it
  std::string check_memory_management();
  void choose_host_location() noexcept;
  CUmemAllocationProp properties(Place place) const noexcept;
  int told(const char* what, CUresult result) const noexcept;
  int refused(const char* what, int error) const noexcept;
  int map_frames(std::byte* at, std::span<const Frame> frames) noexcept;

  const CudaDriver* driver_ = nullptr;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string identity_;  // the name, and the place on the PCI bus
  std::string name_;
  bool direct_ = false;  // frames may be given to GPUDirect
  CUmemLocation host_location_{};
  std::mutex mutex_;  // guards the table, and keeps it in step with the driver
  AddressTable table_;
};

int open_cuda_device(int index, std::unique_ptr<Device>* out, std::string* reason);

}  // namespace terrace::tiers::gpu
