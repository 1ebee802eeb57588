// The base of everything that wraps a tier: forwards each call, so that an adaptor
// writes only what it changes.
//
// An adaptor does not own what it wraps; the wrapped tier outlives it. Adaptors nest, and name() shows
// how: "slow(failing(nvme))".
#pragma once

#include <cstddef>

#include "tiers/tier.h"

namespace terrace::tiers {

class TierAdaptor : public Tier {
 public:
  const char* name() const noexcept override { return name_; }
  const char* io() const noexcept override { return inner_.io(); }
  Space space() const noexcept override { return inner_.space(); }
  Space limited_space() const noexcept override { return inner_.limited_space(); }
  void set_limit(std::uint64_t bytes) noexcept override { inner_.set_limit(bytes); }
  bool give_space_back(bool all) noexcept override { return inner_.give_space_back(all); }
  int reserve(std::uint64_t bytes, Extent* out) noexcept override { return inner_.reserve(bytes, out); }
  void release(const Extent& extent) noexcept override { inner_.release(extent); }
  int submit(const Transfer& transfer) noexcept override { return inner_.submit(transfer); }
  std::size_t poll(std::span<Completion> out) noexcept override { return inner_.poll(out); }
  int wait_fd() const noexcept override { return inner_.wait_fd(); }
  std::size_t in_flight() const noexcept override { return inner_.in_flight(); }
  std::size_t queue_depth() const noexcept override { return inner_.queue_depth(); }
  Medium medium_of(std::uint64_t offset) const noexcept override { return inner_.medium_of(offset); }
  std::uint64_t bytes_on(Medium medium) const noexcept override { return inner_.bytes_on(medium); }
  Demoted demoted() const noexcept override { return inner_.demoted(); }
  void set_memory_limit(std::uint64_t bytes) noexcept override { inner_.set_memory_limit(bytes); }
  std::uint64_t memory_room() const noexcept override { return inner_.memory_room(); }
  void set_read_by_children(bool are_there) noexcept override { inner_.set_read_by_children(are_there); }
  bool is_passed_over(std::uint64_t offset) const noexcept override { return inner_.is_passed_over(offset); }
  const char* place_of(std::uint64_t offset) const noexcept override { return inner_.place_of(offset); }
  int reopen_after_fork() noexcept override { return inner_.reopen_after_fork(); }

 protected:
  TierAdaptor(Tier& inner, const char* kind) noexcept : inner_(inner) {
    std::size_t at = append(0, kind);
    at = append(at, "(");
    at = append(at, inner.name());
    append(at, ")");
  }

  Tier& inner_;

 private:
  std::size_t append(std::size_t at, const char* text) noexcept {
    while (*text != '\0' && at + 1 < sizeof name_) name_[at++] = *text++;
    name_[at] = '\0';
    return at;
  }

  char name_[64] = {};
};

}  // namespace terrace::tiers
