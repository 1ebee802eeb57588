#include "liballoc/gpu/heap/stream_clocks.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "liballoc/gpu/heap/budget.h"
#include "tests/liballoc/gpu/heap/told_device.h"

namespace terrace::liballoc::gpu {
namespace {

struct Fixture {
  Fixture() {
    REQUIRE(device.create_stream(&one) == 0);
    REQUIRE(device.create_stream(&two) == 0);
  }
  test::ToldDevice device{1};
  StreamClocks clocks{device};
  tiers::gpu::Stream one = nullptr;
  tiers::gpu::Stream two = nullptr;
};

}  // namespace

TEST_CASE("While there is one stream an event stands for many marks; with two each mark has its own") {
  Fixture f;
  const Owner one = f.clocks.owner(nullptr);
  for (std::uint32_t i = 0; i < 2 * StreamClocks::batch; ++i) f.clocks.mark(one);
  CHECK(f.device.calls["record"] == 2);
  const Owner two = f.clocks.owner(f.two);
  CHECK(two != one);
  CHECK(f.clocks.owner(nullptr) == one);
  f.clocks.mark(two);
  f.clocks.mark(one);
  CHECK(f.device.calls["record"] == 4);
}

TEST_CASE("What is freed in a stream that may be destroyed has its event at once") {
  Fixture f;
  const Owner one = f.clocks.owner(f.one);
  for (std::uint64_t i = 1; i < 4; ++i) {
    f.clocks.mark(one);
    CHECK(f.device.calls["record"] == i);
  }
}

TEST_CASE("A stream that ended is never asked again, and its address is another's once its work has passed") {
  Fixture f;
  const Owner one = f.clocks.owner(f.one);
  f.device.fail("record", 1, EIO);
  const Mark open = f.clocks.mark(one);
  f.clocks.end(f.one);  // its last event covers the mark that had none
  const auto recorded = f.device.calls["record"];
  const Mark late = f.clocks.mark(one);  // of a block that had been recorded for it
  f.clocks.flush();
  CHECK(f.device.calls["record"] == recorded);

  const Owner again = f.clocks.owner(f.one);
  CHECK(again != one);
  CHECK(!f.clocks.passed(open));
  CHECK(!f.clocks.passed(late));
  CHECK(f.clocks.order(f.one, late) == 0);
  CHECK(f.device.waits.size() == 1);
  f.clocks.end(f.one);
  f.device.pass(f.one);
  CHECK(f.clocks.passed(open));
  CHECK(f.clocks.passed(late));
  CHECK(f.clocks.owner(f.one) <= again);  // streams that come and go take no more numbers
  CHECK(f.clocks.owner(f.two) <= again);
}

TEST_CASE("An end that could not be recorded keeps its number for ever") {
  Fixture f;
  const Owner one = f.clocks.owner(f.one);
  f.device.fail("record", 1, EIO);
  f.clocks.end(f.one);
  f.device.pass(f.one);
  const Mark late = f.clocks.mark(one);
  CHECK(!f.clocks.passed(late));
  CHECK(f.clocks.order(f.two, late) == EINVAL);
  CHECK(f.clocks.owner(f.one) != one);
}

TEST_CASE("The threads' own streams are owners of their own") {
  Fixture f;
  const auto own = tiers::gpu::stream_of_this_thread;
  const auto elsewhere = [](auto function) { std::thread(function).join(); };
  Owner theirs = nobody;
  Mark mark{};
  elsewhere([&] { mark = f.clocks.mark(theirs = f.clocks.owner(own)); });
  CHECK(f.device.calls["record"] == 1);  // at once, by the thread itself
  const Owner mine = f.clocks.owner(own);
  CHECK(mine != theirs);
  CHECK(f.clocks.owner(own) == mine);
  CHECK(f.clocks.order(own, mark) == 0);
  REQUIRE(f.device.waits.size() == 1);
  CHECK(f.device.waits[0].for_stream == f.device.handle(own));
  f.clocks.end(own);  // is nothing that a program destroys
  CHECK(f.clocks.owner(own) == mine);

  f.clocks.mark(theirs);  // from here, it is behind the legacy default stream, which is behind theirs
  CHECK(f.clocks.order(f.one, {2, theirs}) == 0);
  CHECK(f.device.waits.back().for_stream == f.device.handle(nullptr));
  f.device.pass(own);
  f.device.pass(nullptr);
  Owner next = nobody;
  elsewhere([&] { next = f.clocks.owner(own); });
  CHECK(next <= 2);  // threads that come and go take no more numbers
}

TEST_CASE("A thread's number that is kept goes on to another thread when it was let go") {
  Fixture f;
  const auto owner_elsewhere = [&](bool keeps) {
    Owner owner = nobody;
    std::thread([&] {
      owner = f.clocks.owner(tiers::gpu::stream_of_this_thread);
      if (keeps) f.clocks.keep(owner);
    }).join();
    return owner;
  };
  const Owner kept = owner_elsewhere(true);
  CHECK(owner_elsewhere(false) != kept);
  f.clocks.let_go(kept);
  CHECK(owner_elsewhere(false) == kept);
}

TEST_CASE("Marks pass in the order of their stream, when the device says so, and events are used again") {
  Fixture f;
  const Owner one = f.clocks.owner(f.one);
  f.clocks.owner(f.two);
  const Mark first = f.clocks.mark(one), second = f.clocks.mark(one);
  CHECK(!f.clocks.passed(first));
  test::told(f.one)->passed = 1;
  CHECK(f.clocks.passed(first));
  CHECK(!f.clocks.passed(second));
  CHECK(f.clocks.order(f.two, second) == 0);
  CHECK(f.device.waits.size() == 1);
  CHECK(f.clocks.order(f.two, first) == 0);
  CHECK(f.device.waits.size() == 1);
  CHECK(f.clocks.wait(second) == 0);
  CHECK(f.clocks.passed(second));
  CHECK(f.clocks.passed(Mark{}));
  f.clocks.mark(one);
  CHECK(f.device.calls["create_event"] == 2);
}

TEST_CASE("A mark whose event could not be recorded does not pass, and a later event covers it") {
  Fixture f;
  const Owner one = f.clocks.owner(f.one);
  f.clocks.owner(f.two);
  f.device.fail("record", 1, EINVAL);
  const Mark mark = f.clocks.mark(one);
  f.device.fail("record", 1, EINVAL);
  CHECK(f.clocks.order(f.two, mark) == EINVAL);
  f.device.pass(f.one);
  CHECK(!f.clocks.passed(mark));
  f.clocks.mark(one);
  f.device.pass(f.one);
  CHECK(f.clocks.passed(mark));
}

TEST_CASE("A budget is a size or a percentage, met or refused in words") {
  constexpr std::uint64_t all = std::uint64_t{10} << 30, frame_bytes = std::uint64_t{2} << 20;
  std::uint64_t bytes = 0;
  std::string reason;
  CHECK(parse_budget("8G", all, frame_bytes, &bytes, &reason) == 0);
  CHECK(bytes == std::uint64_t{8} << 30);
  CHECK(parse_budget("1536MiB", all, frame_bytes, &bytes, &reason) == 0);
  CHECK(bytes == std::uint64_t{1536} << 20);
  CHECK(parse_budget("50%", all, frame_bytes, &bytes, &reason) == 0);
  CHECK(bytes == all / 2);
  CHECK(parse_budget("12.5%", all, frame_bytes, &bytes, &reason) == 0);
  CHECK(bytes == all / 8);
  CHECK(parse_budget("5g", all, frame_bytes, &bytes, &reason) == 0);
  CHECK(bytes == all / 2);
  for (const char* wrong :
       {"", "G", "8x", "-1", "8 G", "0%", "101%", "0", "1M", "11G", "99999999999T", "8GG", "8iB"}) {
    INFO(wrong);
    reason.clear();
    CHECK(parse_budget(wrong, all, frame_bytes, &bytes, &reason) == EINVAL);
    CHECK(reason.find("TERRACE_GPU_BUDGET=" + std::string(wrong)) == 0);
    CHECK(bytes == all / 2);
  }
}

}  // namespace terrace::liballoc::gpu
