// What no policy can place, every policy refuses, with one sentence.
#include <catch2/catch.hpp>
#include <string>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

constexpr std::uint64_t all_bytes = max_instance_bytes;

void refused_by_all(std::vector<Buffer> buffers, const std::string& sentence) {
  const Instance instance{"broken", std::move(buffers), nullptr};
  CHECK(refusal(instance) == sentence);
  for (const ReusePolicy& policy : reuse_policies()) {
    INFO(policy.name);
    const Result<Placement> placement = policy.place(instance, {});
    CHECK_FALSE(placement);
    CHECK(placement.error == sentence);
  }
}

}  // namespace

TEST_CASE("Empty lives are refused by every policy") {
  refused_by_all({{1, 0, 1, 1, no_tensor}, {4, 3, 3, 1, no_tensor}}, "buffer 1 has an empty life: 3 to 3");
}

TEST_CASE("Alignments that are no power of two up to 2^61 are refused by every policy") {
  refused_by_all({{1, 0, 1, 3, no_tensor}},
                 "buffer 0 has alignment 3, which must be a power of two up to 2^61");
  refused_by_all({{1, 0, 1, 0, no_tensor}},
                 "buffer 0 has alignment 0, which must be a power of two up to 2^61");
  refused_by_all({{1, 0, 1, all_bytes * 2, no_tensor}},
                 "buffer 0 has alignment 4611686018427387904, which must be a power of two up to 2^61");
}

TEST_CASE("Sizes that cannot be added up are refused by every policy") {
  const char* sentence = "the buffers together exceed 2^61 bytes";
  CHECK(refusal({"all", {{all_bytes, 0, 1, 1, no_tensor}}, nullptr}).empty());
  refused_by_all({{all_bytes, 0, 1, 1, no_tensor}, {1, 4, 5, 1, no_tensor}}, sentence);
  refused_by_all({{~std::uint64_t{0}, 0, 1, 1, no_tensor}, {5, 0, 1, 1, no_tensor}}, sentence);
}

TEST_CASE("Paddings that cannot be added up are refused by every policy") {
  const Buffer padded{1, 0, 10, std::uint64_t{1} << 50, no_tensor};
  refused_by_all(std::vector<Buffer>(16'400, padded),
                 "the buffers and the paddings of alignment 1125899906842624 together exceed 2^61 bytes");
}

}  // namespace terrace::planner
