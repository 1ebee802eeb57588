// What a drive does wrong: full, failing, lying, worn out.
#include <cerrno>

#include "liballoc/gpu/offload/drive/endurance_ledger.h"
#include "liballoc/gpu/optimizer/block.h"
#include "tests/liballoc/gpu/offload/directory.h"
#include "tests/liballoc/gpu/optimizer/optimizer_fixture.h"

using namespace terrace::liballoc::optimizer::test;
using terrace::liballoc::offload::EnduranceLedger;
using terrace::liballoc::offload::test::Directory;

namespace {

// Five blocks: parameter 0 has the first three and a part of the fourth, parameter 1 the rest of it and the
// fifth.
const std::vector<std::size_t> five_blocks = {900'000, 300'000, 10};
constexpr std::size_t block = 262'144;

std::vector<float> trained(const Options& options, int steps) {
  Opened optimizer(options);
  Model model(optimizer, five_blocks);
  for (int i = 0; i < steps; ++i) REQUIRE(model.step() == 0);
  return model.parameters[0];
}

}  // namespace

TEST_CASE("A full drive refuses a parameter and keeps the others", "[optimizer]") {
  Opened optimizer({.nvme_bytes = 4 * mib});
  Model model(optimizer, {100'000});
  std::uint64_t id = 99;
  CHECK(optimizer.add(10 * block, 2, &id) == -ENOSPC);
  CHECK(id == 99);
  CHECK_THAT(optimizer.reason, Catch::Contains("no room") && Catch::Contains("20971520 bytes"));
  CHECK(optimizer.statistics().nvme_bytes == 2 * mib);  // what the refused one had begun with is free again
  CHECK(model.step() == 0);
  CHECK(optimizer.add(block, 2, &id) == 0);
}

TEST_CASE("A flipped bit ends the step at its parameter", "[optimizer]") {
  Opened optimizer({.nvme_bytes = 64 * mib, .fault = "corrupt:5"});
  Model model(optimizer, five_blocks);
  REQUIRE(model.step() == 0);
  const auto before = model.parameters;
  CHECK(model.step() == -EBADMSG);  // the fifth read is of the fifth block
  CHECK(optimizer.failed == 1);
  CHECK_THAT(optimizer.reason, Catch::Contains("checksum"));
  CHECK(model.last[0].done_elements == 900'000);
  const std::size_t done = 4 * block - 900'000;
  CHECK(model.last[1].done_elements == done);
  CHECK(model.last[2].done_elements == 0);
  CHECK(model.parameters[0][0] != before[0][0]);
  CHECK(model.parameters[1][done - 1] != before[1][done - 1]);
  CHECK(std::equal(before[1].begin() + done, before[1].end(), model.parameters[1].begin() + done));
  CHECK(model.parameters[2] == before[2]);
  CHECK(optimizer.statistics().checksum_failures == 1);
}

TEST_CASE("A read that fails leaves its parameter as it was", "[optimizer]") {
  Opened optimizer({.nvme_bytes = 64 * mib, .fault = "read:1:EIO"});
  Model model(optimizer, five_blocks);
  REQUIRE(model.step() == 0);
  const auto before = model.parameters;
  CHECK(model.step() == -EIO);
  CHECK(optimizer.failed == 0);
  CHECK(model.parameters == before);
  float* planes[] = {nullptr, nullptr};
  CHECK(optimizer.read(model.ids[0], planes) == -EIO);
  CHECK(optimizer.statistics().io_errors > 0);
}

TEST_CASE("What the drive refuses to take stays in host memory", "[optimizer]") {
  const auto expected = trained({}, 4);
  CHECK(trained({.nvme_bytes = 64 * mib}, 4) == expected);
  for (const char* fault : {"write:1:EIO", "write:8:ENOSPC"}) {
    INFO(fault);
    CHECK(trained({.nvme_bytes = 64 * mib, .fault = fault}, 4) == expected);
  }
  Opened optimizer({.nvme_bytes = 64 * mib, .fault = "write:3:EIO"});
  Model model(optimizer, five_blocks);
  CHECK(model.step() == 0);
  CHECK_THAT(optimizer.warning(), Catch::Contains("refuses to take states"));
  CHECK(optimizer.statistics().dram_bytes == 3 * 2 * mib);
}

TEST_CASE("Writes are counted and an endurance budget is kept", "[optimizer]") {
  const Directory directory;
  {
    Opened optimizer({.nvme_bytes = 64 * mib, .directory = directory.path().c_str()});
    Model model(optimizer, five_blocks);
    REQUIRE(model.step() == 0);
    CHECK(optimizer.statistics().nvme_written_bytes == 10 * mib);
    CHECK(optimizer.statistics().writes_total_bytes == 10 * mib);
  }
  EnduranceLedger ledger;
  std::string reason;
  REQUIRE(ledger.open(directory.path(), 0, 0, &reason) == 0);
  CHECK(ledger.total_bytes() == 10 * mib);
  ledger.close();

  Opened optimizer(
      {.nvme_bytes = 64 * mib, .directory = directory.path().c_str(), .writes_total_bytes = 16 * mib});
  Model model(optimizer, five_blocks);
  REQUIRE(model.step() == 0);
  REQUIRE(model.step() == 0);
  CHECK(optimizer.statistics().nvme_written_bytes == 6 * mib);
  CHECK_THAT(optimizer.warning(), Catch::Contains("stay in DRAM"));
  CHECK(model.parameters[0] == trained({}, 2));
}

TEST_CASE("An older version of a block is as wrong as another block", "[optimizer]") {
  terrace::liballoc::optimizer::Block now{.number = 3, .planes = 1, .generation = 7};
  const std::vector<std::byte> content(now.bytes());
  const std::uint64_t sum = now.sum_of(content.data(), 1);
  CHECK(now.sum_of(content.data(), 1) == sum);
  CHECK(now.sum_of(content.data(), 0) != sum);
  now.generation = 6;
  CHECK(now.sum_of(content.data(), 1) != sum);
  now.generation = 7;
  now.number = 4;
  CHECK(now.sum_of(content.data(), 1) != sum);
}
