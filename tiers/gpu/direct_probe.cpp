// See direct_probe.h.
#include "tiers/gpu/direct_probe.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "tiers/gpu/host_clock.h"

namespace terrace::tiers::gpu {
namespace {

// Device memory of the probe's own, and copies that are waited for.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}
  ~Scratch() {
    if (mapped_) device_.unmap(base_, bytes_);
    for (const Frame& frame : frames_) device_.destroy_frame(frame);
    if (base_ != nullptr) device_.release_address(base_, bytes_);
    if (event_ != nullptr) device_.destroy_event(event_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int open(std::uint64_t bytes) {
    if (bytes == 0 || bytes % device_.frame_bytes() != 0) return EINVAL;
    bytes_ = bytes;
    if (const int error = device_.create_event(&event_); error != 0) return error;
    if (const int error = device_.reserve_address(bytes, &base_); error != 0) return error;
    for (std::uint64_t done = 0; done < bytes; done += device_.frame_bytes()) {
      Frame frame;
      if (const int error = device_.create_frame(Place::device, &frame); error != 0) return error;
      frames_.push_back(frame);
    }
    const int error = device_.map(base_, frames_);
    mapped_ = error == 0;
    return error;
  }

  std::byte* data() const { return base_; }

  int put(const std::vector<std::uint8_t>& content) {
    return finished(device_.copy(nullptr, base_, content.data(), content.size(), Way::to_device));
  }
  int get(std::vector<std::uint8_t>* content) {
    return finished(device_.copy(nullptr, content->data(), base_, content->size(), Way::to_host));
  }

 private:
  int finished(int error) {
    if (error == 0) error = device_.record(event_, nullptr);
    return error != 0 ? error : device_.synchronize(event_);
  }

  Device& device_;
  std::uint64_t bytes_ = 0;
  Event event_ = nullptr;
  std::byte* base_ = nullptr;
  std::vector<Frame> frames_;
  bool mapped_ = false;
};

class Probe {
 public:
  Probe(DirectStorage& storage, Device& device, DirectStorage::File file, std::uint64_t offset,
        std::uint64_t bytes, const BouncePath& bounce)
      : storage_(storage), file_(file), offset_(offset), bytes_(bytes), bounce_(bounce), scratch_(device) {}

  int run(DirectProbe* out, std::string* reason) {
    int error = scratch_.open(bytes_);
    what_ = "taking device memory";
    result_.bytes = bytes_;
    for (unsigned round = 0; error == 0 && round < direct_probe_rounds; ++round) {
      error = direct_round(round);
      if (error == 0) error = bounce_round(round);
    }
    if (error != 0) {
      *reason = std::string(what_) + ": " +
                (error == EBADMSG ? "what came back is not what was written" : ::strerrordesc_np(error));
      return error;
    }
    *out = result_;
    return 0;
  }

 private:
  // Written by cuFile; read back by cuFile, and through the host: both must see it.
  int direct_round(unsigned round) {
    const std::uint8_t seed = static_cast<std::uint8_t>(2 * round + 1);
    const auto write = [this] { return storage_.write(file_, scratch_.data(), bytes_, offset_); };
    const auto read = [this] { return storage_.read(file_, scratch_.data(), bytes_, offset_); };
    int error = step("writing with cuFile", seed, write, &result_.direct_write_ns, true);
    if (error == 0) error = step("reading with cuFile", seed, read, &result_.direct_read_ns, false);
    const auto other = [this] { return bounce_.read(bounce_.context, scratch_.data(), bytes_, offset_); };
    std::uint64_t ignored = 0;
    if (error == 0) error = step("reading through the host what cuFile wrote", seed, other, &ignored, false);
    return error;
  }

  int bounce_round(unsigned round) {
    const std::uint8_t seed = static_cast<std::uint8_t>(2 * round + 2);
    const auto write = [this] { return bounce_.write(bounce_.context, scratch_.data(), bytes_, offset_); };
    const auto read = [this] { return bounce_.read(bounce_.context, scratch_.data(), bytes_, offset_); };
    const int error = step("writing through the host", seed, write, &result_.bounce_write_ns, true);
    return error != 0 ? error : step("reading through the host", seed, read, &result_.bounce_read_ns, false);
  }

  // Before a write the device memory holds the content; before a read it holds nothing of it.
  template <class Transfer>
  int step(const char* what, std::uint8_t seed, const Transfer& transfer, std::uint64_t* best_ns,
           bool is_write) {
    what_ = what;
    const std::vector<std::uint8_t> wanted = content(seed);
    const std::vector<std::uint8_t> zeros(bytes_);
    if (const int error = scratch_.put(is_write ? wanted : zeros); error != 0) return error;
    const std::uint64_t begin = now_ns();
    if (const int error = transfer(); error != 0) return error;
    const std::uint64_t took_ns = now_ns() - begin;
    *best_ns = *best_ns == 0 ? took_ns : std::min(*best_ns, took_ns);
    std::vector<std::uint8_t> found(bytes_);
    if (const int error = scratch_.get(&found); error != 0) return error;
    return found == wanted ? 0 : EBADMSG;
  }

  std::vector<std::uint8_t> content(std::uint8_t seed) const {
    std::vector<std::uint8_t> result(bytes_);
    std::uint64_t state = seed * std::uint64_t{0x9e3779b97f4a7c15};
    for (std::uint8_t& value : result) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
      value = static_cast<std::uint8_t>(state >> 56);
    }
    return result;
  }

  DirectStorage& storage_;
  DirectStorage::File file_;
  const std::uint64_t offset_;
  const std::uint64_t bytes_;
  const BouncePath& bounce_;
  Scratch scratch_;
  DirectProbe result_;
  const char* what_ = "";
};

}  // namespace

int probe_direct_storage(DirectStorage& storage, Device& device, int fd, std::uint64_t offset,
                         std::uint64_t bytes, const BouncePath& bounce, DirectProbe* out,
                         std::string* reason) {
  DirectStorage::File file = nullptr;
  if (const int error = storage.add_file(fd, &file); error != 0) {
    *reason = std::string("the pool file is not taken (") + storage.error_text() + ")";
    return error;
  }
  Probe probe(storage, device, file, offset, bytes, bounce);
  const int error = probe.run(out, reason);
  storage.remove_file(file);
  return error;
}

}  // namespace terrace::tiers::gpu
