// Where the tests find instances and traces: fixtures of the repository, and the larger reference data beside
// the checkout.
#pragma once

#include <optional>
#include <string>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::test {

// The content of a file under the reference data ("g10/BERT_Base-256.json.gz"; gzip is unpacked), from the
// directory TERRACE_REFERENCE_DATA of the environment or ../shared/data of the source tree; nothing, and a
// line with SKIP, where it is missing.
std::optional<std::string> reference_data(const std::string& name);

// The content of tests/planner/data/NAME; fails the test if it cannot be read.
std::string fixture(const std::string& name);

// An instance from CSV text `id,lower,upper,size`, half-open; fails the test if it is malformed.
Instance instance_from_csv(const std::string& name, const std::string& text);

// `count` buffers with random lives and sizes; the same for the same seed.
Instance random_instance(std::uint64_t seed, std::uint32_t count, std::uint32_t end_time,
                         std::uint64_t most_bytes);

}  // namespace terrace::planner::test
