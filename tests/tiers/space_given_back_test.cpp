// When the NVMe tier gives disk space back, and that nothing that is stored goes with it.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "support.h"
#include "tiers/nvme_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

constexpr std::uint64_t part_bytes = 20 * mib;

// Twelve extents one behind the other: 240 MiB, of which the first holds data.
struct Filled {
  Filled() {
    REQUIRE(open_nvme(tier, {.capacity_bytes = 1024 * mib, .grow_step_bytes = 128 * mib}) == 0);
    for (unsigned n = 0; n < 12; ++n) {
      Extent extent;
      REQUIRE(tier.reserve(part_bytes, &extent) == 0);
      REQUIRE(extent.offset == n * part_bytes);
      extents.push_back(extent);
    }
    Buffer buffer(part_bytes);
    buffer.fill(9);
    REQUIRE(write(tier, extents[0], buffer) == 0);
    REQUIRE(file_mib() == 256);
  }
  // All but the first so many.
  void release_from(std::size_t first) {
    for (std::size_t n = first; n < extents.size(); ++n) tier.release(extents[n]);
    extents.resize(first);
  }
  // Each time until no more is to go.
  void look(unsigned times) {
    for (unsigned n = 0; n < times; ++n) give_back(false);
  }
  void give_back(bool all) {
    for (bool is_more = true; is_more;) is_more = tier.give_space_back(all);
  }
  bool holds_data() {
    Buffer buffer(part_bytes);
    return read(tier, extents[0], buffer) == 0 && buffer.holds(9);
  }
  // What the disk counts.
  std::uint64_t file_mib() const {
    struct stat status {};
    REQUIRE(::fstat(tier.fd(), &status) == 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512 / mib;
  }

  NvmeTier tier;
  std::vector<Extent> extents;
};

}  // namespace

TEST_CASE("Space that was not needed for minutes goes back, and what is stored stays") {
  Filled f;
  f.release_from(1);
  f.look(20);
  CHECK(f.file_mib() == 256);  // the next step may need it
  f.look(40);
  CHECK(f.file_mib() == 192);
  f.look(1000);
  CHECK(f.file_mib() == 64);
  CHECK(f.holds_data());
  Extent extent;
  CHECK(f.tier.reserve(200 * mib, &extent) == 0);  // and can be had again
}

TEST_CASE("Space that each step needs again stays") {
  Filled f;
  for (unsigned step = 0; step < 20; ++step) {
    f.release_from(1);
    f.look(10);
    Extent extent;
    while (f.extents.size() < 12) {
      REQUIRE(f.tier.reserve(part_bytes, &extent) == 0);
      f.extents.push_back(extent);
    }
  }
  CHECK(f.file_mib() == 256);
}

TEST_CASE("Where others have come to share, what is free goes back at once") {
  Filled f;
  f.release_from(1);
  f.tier.set_limit(50 * mib);
  f.look(1);
  CHECK(f.file_mib() <= 50);
  CHECK(f.holds_data());
}

TEST_CASE("What is in use beyond a limit stays") {
  Filled f;
  f.release_from(9);
  f.tier.set_limit(50 * mib);
  f.look(10);
  CHECK(f.file_mib() == 180);
  CHECK(f.holds_data());
}

TEST_CASE("Who asks for all has it") {
  Filled f;
  f.release_from(1);
  f.give_back(true);
  CHECK(f.file_mib() == 20);
  CHECK(f.holds_data());
}

TEST_CASE("What is free between what is stored goes as well, and can be had again") {
  Filled f;
  Buffer last(part_bytes);
  last.fill(5);
  REQUIRE(write(f.tier, f.extents[11], last) == 0);
  for (std::size_t n = 1; n < 11; ++n) f.tier.release(f.extents[n]);
  f.look(1000);
  CHECK(f.file_mib() == 256);  // nobody waits for it
  f.give_back(true);
  CHECK(f.file_mib() == 40);
  Extent between;
  REQUIRE(f.tier.reserve(part_bytes, &between) == 0);
  CHECK(between == f.extents[1]);
  CHECK(f.file_mib() == 60);  // before it is written: a full disk would show here
  Buffer buffer(part_bytes);
  buffer.fill(6);
  CHECK(write(f.tier, between, buffer) == 0);
  Buffer back(part_bytes);
  CHECK((read(f.tier, between, back) == 0 && back.holds(6)));
  CHECK((read(f.tier, f.extents[11], back) == 0 && back.holds(5)));
  CHECK(f.holds_data());
}

TEST_CASE("PoolFullIsEnospc also where there is a hole, and nothing moves") {
  const int result = in_small_disk(16 * mib, [](const char* directory) {
    NvmeTier tier;
    if (open_nvme(tier, {.capacity_bytes = 64 * mib}, true, directory) != 0) return 1;
    Extent first, second;
    if (tier.reserve(8 * mib, &first) != 0 || tier.reserve(4 * mib, &second) != 0) return 2;
    tier.release(first);
    while (tier.give_space_back(true)) continue;
    int other = -1;
    if (open_pool_file(directory, &other) != 0) return 3;
    if (::fallocate(other, 0, 0, static_cast<off_t>(8 * mib)) != 0) return 4;
    const std::uint64_t used = tier.space().used_bytes;
    Extent refused{1, 2};
    if (tier.reserve(8 * mib, &refused) != ENOSPC) return 5;
    if (!(refused == Extent{1, 2}) || tier.space().used_bytes != used) return 6;
    ::close(other);
    return tier.reserve(8 * mib, &refused) == 0 && refused == first ? 0 : 7;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}

TEST_CASE("An empty file goes back as a whole, and grows anew") {
  Filled f;
  f.release_from(0);
  f.give_back(true);
  CHECK(f.file_mib() == 0);
  Extent extent;
  REQUIRE(f.tier.reserve(mib, &extent) == 0);
  CHECK(f.file_mib() == 64);
}

TEST_CASE("A transfer under way ends where it was to") {
  Filled f;
  f.release_from(2);
  Buffer buffer(part_bytes);
  buffer.fill(4);
  REQUIRE(f.tier.submit({Direction::write, f.extents[1], buffer.data(), 7}) == 0);
  f.give_back(true);
  const std::vector<Completion> done = finish(f.tier);
  REQUIRE(done.size() == 1);
  CHECK(done[0].error == 0);
  CHECK(f.file_mib() == 40);
  Buffer back(part_bytes);
  CHECK(read(f.tier, f.extents[1], back) == 0);
  CHECK(back.holds(4));
}

TEST_CASE("A forked child gives nothing back that its parent uses") {
  Filled f;
  const int result = in_child([&] {
    if (f.tier.reopen_after_fork() != 0) return 1;
    for (const Extent& extent : f.extents) f.tier.release(extent);
    f.give_back(true);
    return f.tier.preallocated_bytes() == 256 * mib ? 0 : 2;
  });
  CHECK(result == 0);
  CHECK(f.file_mib() == 256);
  CHECK(f.holds_data());
}

TEST_CASE("DescriptorReusedByTheProgramIsNotShortened") {
  Filled f;
  f.release_from(1);
  const int number = f.tier.fd();
  int programs_file = -1;
  REQUIRE(open_pool_file(TERRACE_TEST_POOL_DIR, &programs_file) == 0);
  REQUIRE(::ftruncate(programs_file, static_cast<off_t>(512 * mib)) == 0);
  REQUIRE(::dup3(programs_file, number, O_CLOEXEC) == number);
  f.tier.give_space_back(true);
  struct stat status {};
  REQUIRE(::fstat(programs_file, &status) == 0);
  CHECK(status.st_size == static_cast<off_t>(512 * mib));
  f.tier.close();
  ::close(number);
  ::close(programs_file);
}
