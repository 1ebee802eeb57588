// What a Kineto profile says, read and checked, before anything is concluded from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::import::kineto {

struct Operator {  // an X event of category cpu_op
  std::string name;
  std::uint32_t thread = 0;
  double begin_us = 0, duration_us = 0;
};

struct Launch {  // a CUDA runtime call; its kernel has the same correlation
  std::uint32_t thread = 0;
  double begin_us = 0;
  std::uint64_t correlation = 0;
};

struct Kernel {  // also memcpy and memset
  double duration_us = 0;
  std::uint64_t correlation = 0;
};

struct MemoryEvent {
  std::uint32_t thread = 0;
  std::uint32_t device = 0;  // index into Profile::devices
  double time_us = 0;
  std::uint64_t order = 0;  // "Ev Idx", or the place in the file
  std::uint64_t address = 0;
  std::int64_t bytes = 0;             // negative: released
  std::uint64_t allocated_bytes = 0;  // "Total Allocated" after the event; 0 where it is not told
};

struct Profile {
  std::string name;
  std::vector<Operator> operators;
  std::vector<Launch> launches;
  std::vector<Kernel> kernels;
  std::vector<MemoryEvent> memory;
  std::vector<std::string> devices;  // "CPU", "CUDA 0"
};

Result<Profile> read_profile(std::string_view text);

}  // namespace terrace::import::kineto
