// See cuda_device.h: opening, and memory. Streams, events and copies are in cuda_streams.cpp.
#include "tiers/gpu/cuda_device.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tiers/gpu/cuda_current.h"
#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {
namespace {

thread_local char last_error[256] = "";

CUdeviceptr address(const std::byte* at) noexcept { return reinterpret_cast<CUdeviceptr>(at); }

}  // namespace

int open_cuda_device(int index, std::unique_ptr<Device>* out, std::string* reason) {
  const CudaDriver* driver = nullptr;
  if (const int error = load_cuda_driver(&driver, reason); error != 0) return error;
  auto device = std::make_unique<CudaDevice>();
  if (const int error = device->open(driver, index, reason); error != 0) return error;
  *out = std::move(device);
  return 0;
}

int CudaDevice::open(const CudaDriver* driver, int index, std::string* reason) {
  driver_ = driver;
  int count = 0;
  driver_->device_get_count(&count);
  if (index >= count) {
    *reason = "there is no GPU " + std::to_string(index) + ": the driver has " + std::to_string(count) +
              " (CUDA_VISIBLE_DEVICES hides some)";
    return ENODEV;
  }
  CUresult result = driver_->device_get(&device_, index);
  char name[128] = "";
  if (result == CUDA_SUCCESS) result = driver_->device_get_name(name, sizeof name, device_);
  if (result == CUDA_SUCCESS) result = driver_->primary_context_retain(&context_, device_);
  if (result != CUDA_SUCCESS) {
    context_ = nullptr;
    *reason = "GPU " + std::to_string(index) + " cannot be used: " + cuda_words(*driver_, result) +
              "; see nvidia-smi for who uses it, and its compute mode";
    return cuda_errno(result) == ENOMEM ? ENOMEM : ENODEV;
  }
  name_ = name;
  char place[32] = "";
  std::snprintf(place, sizeof place, " %04x:%02x:%02x.0", attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  identity_ = name_ + place;
  const std::string fault = check_memory_management();
  if (fault.empty()) return 0;
  *reason = name_ + ": " + fault;
  return ENODEV;
}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr) driver_->primary_context_release(device_);
}

int CudaDevice::attribute(CUdevice_attribute which) const noexcept {
  int value = 0;
  return driver_->device_get_attribute(&value, which, device_) == CUDA_SUCCESS ? value : 0;
}

int CudaDevice::host_node() const noexcept {
  int node = -1;
  const CUresult told = driver_->device_get_attribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device_);
  return told == CUDA_SUCCESS ? node : -1;
}

std::string CudaDevice::check_memory_management() {
  if (attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0) {
    return "no virtual memory management, which the GPU heap is built on (vGPU and old cards have none)";
  }
  direct_ = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  choose_host_location();
  const Current current(*driver_, context_);
  const CUmemAllocationProp wanted = properties(Place::device);
  std::size_t granularity = 0;
  const CUresult result =
      driver_->mem_get_granularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) return cuda_words(*driver_, result);
  if (granularity == 0 || frame_size % granularity != 0) {
    return "memory comes in pieces of " + std::to_string(granularity) + " bytes, not of 2 MiB";
  }
  return {};
}

void CudaDevice::choose_host_location() noexcept {
  const int node = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  if (attribute(maps_host_memory) != 0) {
    host_location_ = {CU_MEM_LOCATION_TYPE_HOST, 0};
  } else if (attribute(maps_host_numa_memory) != 0 && node >= 0) {
    host_location_ = {CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
  } else {
    host_location_ = {CU_MEM_LOCATION_TYPE_INVALID, 0};
  }
}

CUmemAllocationProp CudaDevice::properties(Place place) const noexcept {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location =
      place == Place::device ? CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device_} : host_location_;
  if (place == Place::device && direct_) wanted.allocFlags.gpuDirectRDMACapable = 1;
  return wanted;
}

// Every failure passes one of these two on its way out, so that error_text() can say what failed.
int CudaDevice::told(const char* what, CUresult result) const noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return cuda_errno(result);
  const char* name = nullptr;
  const char* text = nullptr;
  driver_->get_error_name(result, &name);
  driver_->get_error_string(result, &text);
  std::snprintf(last_error, sizeof last_error, "%s: %s: %s (%s)", name_.c_str(), what,
                name != nullptr ? name : "unknown error", text != nullptr ? text : "");
  return cuda_errno(result);
}

int CudaDevice::refused(const char* what, int error) const noexcept {
  if (error == 0) return 0;
  std::snprintf(last_error, sizeof last_error, "%s: %s: %s", name_.c_str(), what, ::strerrordesc_np(error));
  return error;
}

const char* CudaDevice::error_text() const noexcept { return last_error; }

std::uint64_t CudaDevice::frame_bytes() const noexcept { return frame_size; }

Memory CudaDevice::memory() const noexcept {
  const Current current(*driver_, context_);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (told("cuMemGetInfo", driver_->mem_get_info(&free_bytes, &total_bytes)) != 0) return {};
  return {total_bytes, free_bytes};
}

int CudaDevice::reserve_address(std::uint64_t bytes, std::byte** out) noexcept {
  if (bytes == 0 || bytes % frame_size != 0) return refused("reserving addresses", EINVAL);
  const Current current(*driver_, context_);
  CUdeviceptr base = 0;
  const int error = told("cuMemAddressReserve", driver_->mem_address_reserve(&base, bytes, frame_size, 0, 0));
  if (error != 0) return error;
  auto* const at = reinterpret_cast<std::byte*>(base);
  const std::lock_guard lock(mutex_);
  if (const int full = table_.add_range(at, bytes); full != 0) {
    driver_->mem_address_free(base, bytes);
    return refused("reserving addresses", full);
  }
  *out = at;
  return 0;
}

int CudaDevice::release_address(std::byte* base, std::uint64_t bytes) noexcept {
  const Current current(*driver_, context_);
  const std::lock_guard lock(mutex_);
  if (const int error = table_.check_release(base, bytes); error != 0) {
    return refused("releasing addresses", error);
  }
  const int error = told("cuMemAddressFree", driver_->mem_address_free(address(base), bytes));
  if (error == 0) table_.remove_range(base);
  return error;
}

int CudaDevice::create_frame(Place place, Frame* out) noexcept {
  if (place == Place::host && host_location_.type == CU_MEM_LOCATION_TYPE_INVALID) {
    return refused("frames in host memory, which this driver does not make (CUDA 12.2 or newer)", ENOTSUP);
  }
  const Current current(*driver_, context_);
  const CUmemAllocationProp wanted = properties(place);
  CUmemGenericAllocationHandle handle = 0;
  if (const int error = told("cuMemCreate", driver_->mem_create(&handle, frame_size, &wanted, 0));
      error != 0) {
    return error;
  }
  const Frame frame{handle, place};
  const std::lock_guard lock(mutex_);
  if (const int full = table_.add_frame(frame); full != 0) {
    driver_->mem_release(handle);
    return refused("creating a frame", full);
  }
  *out = frame;
  return 0;
}

int CudaDevice::destroy_frame(Frame frame) noexcept {
  const Current current(*driver_, context_);
  const std::lock_guard lock(mutex_);
  if (const int error = table_.check_destroy(frame); error != 0) return refused("destroying a frame", error);
  const int error = told("cuMemRelease", driver_->mem_release(frame.handle));
  if (error == 0) table_.remove_frame(frame);
  return error;
}

int CudaDevice::map_frames(std::byte* at, std::span<const Frame> frames) noexcept {
  const std::uint64_t bytes = frames.size() * frame_size;
  std::uint64_t done = 0;
  int error = 0;
  for (; error == 0 && done < bytes; done += frame_size) {
    const CUresult result =
        driver_->mem_map(address(at + done), frame_size, 0, frames[done / frame_size].handle, 0);
    error = told("cuMemMap", result);
    if (error != 0) break;
  }
  if (error == 0) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    error = told("cuMemSetAccess", driver_->mem_set_access(address(at), bytes, &access, 1));
  }
  if (error != 0 && done != 0) driver_->mem_unmap(address(at), done);
  return error;
}

int CudaDevice::map(std::byte* at, std::span<const Frame> frames) noexcept {
  const Current current(*driver_, context_);
  const std::lock_guard lock(mutex_);
  if (const int error = table_.map(at, frames); error != 0) return refused("mapping frames", error);
  const int error = map_frames(at, frames);
  if (error != 0) table_.unmap(at, frames.size() * frame_size);
  return error;
}

int CudaDevice::unmap(std::byte* at, std::uint64_t bytes) noexcept {
  const Current current(*driver_, context_);
  const std::lock_guard lock(mutex_);
  if (const int error = table_.check_unmap(at, bytes); error != 0) return refused("unmapping frames", error);
  const int error = told("cuMemUnmap", driver_->mem_unmap(address(at), bytes));
  if (error == 0) table_.unmap(at, bytes);
  return error;
}

}  // namespace terrace::tiers::gpu
