// One suite for every device: what device.h promises, asked of whatever the caller opens.
//
// A test calls check_conformance() inside a TEST_CASE with a function that opens a fresh device with at least
// 64 MiB free. Each promise is a SECTION, so each gets a device of its own. Contents are looked at through
// copies alone, and a host function never waits for work of another stream's host function, which CUDA may
// run on the same thread.
#pragma once

#include <functional>
#include <memory>

#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu::test {

using OpenDevice = std::function<std::unique_ptr<Device>()>;

void check_conformance(const OpenDevice& open);

}  // namespace terrace::tiers::gpu::test
