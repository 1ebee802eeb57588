// One interface to a GPU: its memory in frames, its streams, its link to the host.
//
// Two implementations pass one conformance suite (tests/tiers/gpu): the CUDA driver, found at run time, so
// that one build runs with and without a GPU; and the emulated device, an arena of host memory with a
// capacity, streams run by threads, and links of a set bandwidth and latency in each direction. The emulated
// device is for users too: jobs are tried and planned on it where no card is.
//
// Memory follows CUDA's virtual memory management: an address range is reserved, frames of frame_bytes() are
// created, in device memory or in the host's, and mapped anywhere in a reserved range. A frame is mapped at
// one place at most. On the emulated device, as on a GPU for kernels, mapped memory is read and written at
// its address; on the emulated device by the host as well. Frames in host memory are what keeps an address
// valid while its device frame is lent to another: slow, but correct.
//
// Streams run their work in order and independently of each other; nullptr is no stream of ours but the
// default one of the program. An event marks a place in a stream: a stream waits for it without the host
// waiting.
//
// Contract
//  * Any thread may call anything, except that one object (frame, stream, event, range) is not destroyed
//  while
//    another thread uses it. Nothing throws.
//  * Units: bytes. Addresses and lengths of reserve_address(), map() and unmap() are multiples of
//    frame_bytes(); copies have no alignment.
//  * Errors are errno values, 0 is success; output parameters stay untouched on failure. ENOMEM: the device's
//    memory, or the host's, is used up; EINVAL: an argument that was never given out, or misaligned; EPERM,
//    EAGAIN: the limit on locked memory (pin); ENODEV: the driver is gone; EIO: the device reported an error
//    from which it does not recover. error_text() has the driver's words for the calling thread's last error.
//  * Nothing synchronises the device. What waits says so: synchronize().
//  * A forked child must not use a device that its parent opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace terrace::tiers::gpu {

using Stream = struct StreamObject*;  // on CUDA a CUstream
using Event = struct EventObject*;    // on CUDA a CUevent

// CU_STREAM_PER_THREAD: whichever thread says it means its own default stream. On CUDA alone.
inline const Stream stream_of_this_thread = reinterpret_cast<Stream>(std::uintptr_t{2});  // NOLINT

enum class Kind : std::uint8_t { cuda, emulated };
enum class Place : std::uint8_t { device, host };

// The size of a frame: CUDA's granularity of physical memory on every GPU since Volta (the driver is asked,
// and refused when it says otherwise), and the emulated device's.
inline constexpr std::uint64_t frame_size = std::uint64_t{2} << 20;

struct Frame {
  std::uint64_t handle = 0;
  Place place = Place::device;
  friend bool operator==(const Frame&, const Frame&) = default;
};

struct Memory {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

// Which way bytes go. On the emulated device it says which link is busy and how fast it is.
enum class Way : std::uint8_t { to_host, to_device, on_device };

// A kernel: on CUDA launched on the stream by `cuda` (which returns 0 or a cudaError_t), on the emulated
// device run by the stream's thread in its turn. `arguments` stay alive until the stream has passed.
struct Kernel {
  int (*cuda)(void* cuda_stream, void* arguments) = nullptr;
  void (*emulated)(void* arguments) = nullptr;
  void* arguments = nullptr;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // Everything that was created has been destroyed before.
  virtual ~Device() = default;

  virtual Kind kind() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;  // "NVIDIA H200", "emulated"
  // Which device of the machine it is, in every process that has it: "NVIDIA H200 0000:3b:00.0".
  virtual std::string_view identity() const noexcept { return name(); }
  virtual std::uint64_t frame_bytes() const noexcept = 0;  // 2 MiB
  virtual Memory memory() const noexcept = 0;              // of the device
  // Whether wait() on the default stream orders what the program does in it from then on. False where the
  // host does that work itself, at once: then the host has to wait.
  virtual bool orders_programs_work() const noexcept { return true; }
  // The NUMA node of the host whose memory is nearest to the device. -1: not known.
  virtual int host_node() const noexcept { return -1; }

  virtual int reserve_address(std::uint64_t bytes, std::byte** out) noexcept = 0;
  virtual int release_address(std::byte* base, std::uint64_t bytes) noexcept = 0;
  virtual int create_frame(Place place, Frame* out) noexcept = 0;
  virtual int destroy_frame(Frame frame) noexcept = 0;  // EBUSY while it is mapped
  // Maps frames one behind another, readable and writable. All or none. EEXIST: something is mapped there.
  virtual int map(std::byte* at, std::span<const Frame> frames) noexcept = 0;
  // Whatever may still use the addresses has been waited for. ENOENT: something there is not mapped.
  virtual int unmap(std::byte* at, std::uint64_t bytes) noexcept = 0;

  // Page-locks host memory that the caller mapped, for copies that run beside the host. Both multiples of
  // 4096.
  virtual int pin(void* host, std::uint64_t bytes) noexcept = 0;
  virtual int unpin(void* host) noexcept = 0;  // exactly what was pinned

  virtual int create_stream(Stream* out) noexcept = 0;
  virtual int destroy_stream(Stream stream) noexcept = 0;  // finishes its work first
  virtual int create_event(Event* out) noexcept = 0;
  virtual int destroy_event(Event event) noexcept = 0;
  // Moves the event to the end of what is in the stream now. An event never recorded counts as passed.
  virtual int record(Event event, Stream stream) noexcept = 0;
  // What enters `stream` from now on runs after the event, as recorded at this moment.
  virtual int wait(Stream stream, Event event) noexcept = 0;
  // 0: passed; EBUSY: not yet; else the error that ended the stream's work.
  virtual int query(Event event) noexcept = 0;
  virtual int synchronize(Event event) noexcept = 0;  // the host waits

  // Both sides stay alive until the stream has passed. Host memory that is not pinned is allowed, and slow.
  virtual int copy(Stream stream, void* to, const void* from, std::uint64_t bytes, Way way) noexcept = 0;
  virtual int launch(Stream stream, const Kernel& kernel) noexcept = 0;
  // Runs function(argument) on a host thread in the stream's turn. It must not call the device.
  virtual int call_host(Stream stream, void (*function)(void*), void* argument) noexcept = 0;

  virtual const char* error_text() const noexcept = 0;

  // For threads that the program does not know: what the calling thread asks of the device from now on never
  // ends a stream's capture in another thread, as asking for an event does by default.
  virtual void relax_stream_capture() noexcept {}
};

// What a user writes after --gpu: "cuda", "cuda:1", "emulated:8G",
// "emulated:8G,h2d=12G,d2h=12G,latency=10us,lag=50ms". Sizes as everywhere (K, M, G, T, powers of 1024),
// rates in bytes a second.
struct DeviceSpec {
  Kind kind = Kind::cuda;
  int index = 0;                            // of the CUDA device
  std::uint64_t capacity_bytes = 0;         // emulated
  std::uint64_t to_device_bytes_per_s = 0;  // emulated; 0: as fast as memory is
  std::uint64_t to_host_bytes_per_s = 0;
  std::uint64_t latency_ns = 0;  // of each copy
  std::uint64_t lag_ns = 0;      // of the default stream behind the host (emulated/device.h)
};

// 0, or EINVAL with *reason naming the text, what is wrong with it and what is accepted.
int parse_device(std::string_view text, DeviceSpec* out, std::string* reason);

// 0 and the device, or errno with *reason saying what is missing and what helps: ENODEV without libcuda, a
// GPU, or a driver that is new enough; ENOTSUP when this build has no CUDA; ENOMEM.
int open_device(const DeviceSpec& spec, std::unique_ptr<Device>* out, std::string* reason);

}  // namespace terrace::tiers::gpu
