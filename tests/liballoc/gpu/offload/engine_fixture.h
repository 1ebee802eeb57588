// An engine as a user opens it, and tensors whose bytes follow from a number.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "liballoc/gpu/terrace_gpu.h"
#include "tests/units.h"

namespace terrace::liballoc::offload::test {

using terrace::tests::kib;
using terrace::tests::mib;

// Two thirds zeros, and floats that share an exponent: something for every codec.
inline std::vector<std::byte> content(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::uint64_t i = 0; i + 4 <= bytes; i += 4) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const std::uint32_t value = state >> 62 != 0 ? 0 : 0x3f800000 | static_cast<std::uint32_t>(state >> 40);
    std::memcpy(&out[i], &value, 4);
  }
  for (std::uint64_t i = bytes / 4 * 4; i < bytes; ++i) out[i] = static_cast<std::byte>(seed + i);
  return out;
}

struct Options {
  const char* device = "cpu";
  std::uint64_t dram_bytes = 256 * mib;
  std::uint64_t nvme_bytes = 0;
  const char* nvme_directory = TERRACE_TEST_POOL_DIR;
  const char* compress = "off";
  const char* fault = nullptr;
  std::uint64_t writes_per_day_bytes = 0;
  std::uint64_t writes_total_bytes = 0;
  std::uint64_t read_ahead_bytes = 0;
  std::uint64_t staging_bytes = 0;
  const char* checksums = nullptr;
  const char* policy = nullptr;
  const char* trial = nullptr;
};

inline terrace_offload_config config_of(const Options& options) {
  return {.size = sizeof(terrace_offload_config),
          .device = options.device,
          .dram_bytes = options.dram_bytes,
          .nvme_bytes = options.nvme_bytes,
          .nvme_directory = options.nvme_directory,
          .compress = options.compress,
          .read_ahead_bytes = options.read_ahead_bytes,
          .writes_per_day_bytes = options.writes_per_day_bytes,
          .writes_total_bytes = options.writes_total_bytes,
          .fault = options.fault,
          .staging_bytes = options.staging_bytes,
          .checksums = options.checksums,
          .policy = options.policy,
          .trial = options.trial};
}

class Opened {
 public:
  explicit Opened(const Options& options = {}) {
    const terrace_offload_config config = config_of(options);
    char reason[512] = "";
    const int error = terrace_offload_open(&config, &engine_, reason, sizeof(reason));
    INFO(reason);
    REQUIRE(error == 0);
  }
  ~Opened() { terrace_offload_close(engine_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  terrace_offload* get() const { return engine_; }

  int try_store(const std::vector<std::byte>& data, std::uint64_t* id, std::uint64_t site = 0) const {
    const terrace_offload_tensor tensor{
        .size = sizeof(terrace_offload_tensor),
        .data = data.data(),
        .bytes = data.size(),
        .element = data.size() % 4 == 0 ? TERRACE_ELEMENT_F32 : TERRACE_ELEMENT_U8,
        .site = site};
    return terrace_offload_store(engine_, &tensor, nullptr, id);
  }
  std::uint64_t store(const std::vector<std::byte>& data, std::uint64_t site = 0) const {
    std::uint64_t id = 0;
    REQUIRE(try_store(data, &id, site) == 0);
    return id;
  }
  // These wait, without asking too often; leave() until there is room for the copy.
  int left(std::uint64_t id) const;
  int leave(std::uint64_t id) const;
  int fetch(std::uint64_t id, std::vector<std::byte>& to) const {
    if (const int error = terrace_offload_fetch(engine_, id, to.data(), nullptr); error != 0) return error;
    return terrace_offload_arrive(engine_, id, nullptr);
  }
  void release(std::uint64_t id) const { REQUIRE(terrace_offload_release(engine_, id, nullptr) == 0); }
  terrace_offload_statistics statistics() const {
    terrace_offload_statistics out{};
    out.size = sizeof(out);
    REQUIRE(terrace_offload_get_statistics(engine_, &out) == 0);
    return out;
  }

 private:
  terrace_offload* engine_ = nullptr;
};

inline void pause_ms(long milliseconds) {
  const timespec pause{0, milliseconds * 1'000'000};
  nanosleep(&pause, nullptr);
}

template <class Ask>
int once_answered(const Ask& ask) {
  for (;;) {
    const int result = ask();
    if (result != 0) return result;
    timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

inline int Opened::left(std::uint64_t id) const {
  return once_answered([&] { return terrace_offload_left(engine_, id); });
}

inline int Opened::leave(std::uint64_t id) const {
  return once_answered([&] { return terrace_offload_leave(engine_, id, nullptr); });
}

// Stores, lets it leave by `way`, overwrites the source, and brings it back; `settle` waits for the device
// where fetch() does not. True if the bytes are the same.
inline bool survives(const Opened& engine, std::uint64_t bytes, std::uint64_t seed,
                     void (*settle)() = nullptr, int (Opened::*way)(std::uint64_t) const = &Opened::left) {
  const auto expected = content(bytes, seed);
  auto source = expected;
  const std::uint64_t id = engine.store(source);
  if ((engine.*way)(id) != 1) return false;
  std::fill(source.begin(), source.end(), std::byte{0x5a});
  std::vector<std::byte> back(bytes, std::byte{0xa5});
  const int error = engine.fetch(id, back);
  engine.release(id);
  if (settle != nullptr) settle();
  return error == 0 && back == expected;
}

}  // namespace terrace::liballoc::offload::test
