// The promises of device.h, one function each. What a promise means is the function's name.
#include "device_conformance.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "device_support.h"

namespace terrace::tiers::gpu::test {
namespace {

void it_says_what_it_is(Device& device) {
  CHECK_FALSE(device.name().empty());
  CHECK(device.frame_bytes() == 2 * mib);
  const Memory memory = device.memory();
  CHECK(memory.total_bytes >= 64 * mib);
  CHECK(memory.free_bytes <= memory.total_bytes);
  CHECK(device.error_text() != nullptr);
}

void address_ranges_are_whole_frames(Device& device) {
  std::byte* base = nullptr;
  CHECK(device.reserve_address(0, &base) == EINVAL);
  CHECK(device.reserve_address(mib, &base) == EINVAL);
  CHECK(base == nullptr);
  REQUIRE(device.reserve_address(8 * mib, &base) == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(base) % device.frame_bytes() == 0);
  CHECK(device.release_address(base, 4 * mib) == EINVAL);
  CHECK(device.release_address(base + 2 * mib, 6 * mib) == EINVAL);
  CHECK(device.release_address(base, 8 * mib) == 0);
  CHECK(device.release_address(base, 8 * mib) == EINVAL);
}

void a_frame_is_mapped_at_one_place_at_most(Device& device) {
  const Area area(device, 1, Place::device, 1);
  const Frame frame = area.frames()[0];
  CHECK(device.map(area.frame_at(1), {&frame, 1}) == EBUSY);
  CHECK(device.destroy_frame(frame) == EBUSY);
  REQUIRE(device.unmap(area.at(), device.frame_bytes()) == 0);
  const Frame twice[] = {frame, frame};
  CHECK(device.map(area.at(), twice) == EBUSY);
  CHECK(device.map(area.frame_at(1), {&frame, 1}) == 0);
}

void what_is_mapped_is_not_mapped_over(Device& device) {
  const Area area(device, 2, Place::device, 2);
  Frame more[2];
  for (Frame& frame : more) REQUIRE(device.create_frame(Place::device, &frame) == 0);
  CHECK(device.map(area.frame_at(1), more) == EEXIST);
  CHECK(device.map(area.frame_at(3), more) == EINVAL);  // beyond the range
  CHECK(device.map(area.at(mib), more) == EINVAL);
  CHECK(device.map(area.frame_at(2), {}) == EINVAL);
  CHECK(device.map(area.frame_at(2), more) == 0);  // nothing was left behind by the refusals
  CHECK(device.unmap(area.frame_at(2), 4 * mib) == 0);
  for (const Frame& frame : more) CHECK(device.destroy_frame(frame) == 0);
  CHECK(device.destroy_frame(more[0]) == EINVAL);
}

void what_is_not_mapped_is_not_unmapped(Device& device) {
  const Area area(device, 1, Place::device, 1);
  CHECK(device.unmap(area.frame_at(1), 2 * mib) == ENOENT);
  CHECK(device.unmap(area.at(), 4 * mib) == ENOENT);
  CHECK(device.unmap(area.at(), mib) == EINVAL);
  CHECK(device.release_address(area.at(), 4 * mib) == EBUSY);
  const Bytes content = pattern(1000, 1);
  put(device, area.at(), content);  // it is still there
  CHECK(get(device, area.at(), content.size()) == content);
}

void contents_follow_a_frame(Device& device) {
  const Area area(device, 2, Place::device, 2);
  const Bytes content = pattern(4 * mib, 2);
  put(device, area.at(), content);
  REQUIRE(device.unmap(area.at(), 4 * mib) == 0);
  const Frame swapped[] = {area.frames()[1], area.frames()[0]};
  REQUIRE(device.map(area.frame_at(2), swapped) == 0);
  const Bytes found = get(device, area.frame_at(2), content.size());
  CHECK(std::equal(found.begin(), found.begin() + 2 * mib, content.begin() + 2 * mib));
  CHECK(std::equal(found.begin() + 2 * mib, found.end(), content.begin()));
}

void frames_in_host_memory_keep_an_address_valid(Device& device) {
  Frame host;
  const int error = device.create_frame(Place::host, &host);
  if (error == ENOTSUP) {
    WARN("SKIP: " << device.error_text());
    return;
  }
  REQUIRE(error == 0);
  CHECK(host.place == Place::host);
  const Area area(device, 1);
  const Bytes content = pattern(3000, 3);
  put(device, area.at(), content);
  REQUIRE(device.unmap(area.at(), 2 * mib) == 0);
  REQUIRE(device.map(area.at(), {&host, 1}) == 0);
  const Bytes other = pattern(3000, 4);
  put(device, area.at(), other);
  CHECK(get(device, area.at(), other.size()) == other);
  REQUIRE(device.unmap(area.at(), 2 * mib) == 0);
  REQUIRE(device.map(area.at(), area.frames()) == 0);
  CHECK(get(device, area.at(), content.size()) == content);
  CHECK(device.destroy_frame(host) == 0);
}

void copies_have_no_alignment(Device& device) {
  const Area area(device, 2);
  const Bytes content = pattern(2 * mib + 13, 5);
  put(device, area.at(4095), content);  // across two frames
  CHECK(get(device, area.at(4095), content.size()) == content);
  REQUIRE(device.copy(nullptr, area.at(1), area.at(4095), 4000, Way::on_device) == 0);
  const Bytes head(content.begin(), content.begin() + 4000);
  CHECK(get(device, area.at(1), 4000) == head);
  CHECK(device.copy(nullptr, area.at(), content.data(), 0, Way::to_device) == 0);
  CHECK(device.copy(nullptr, nullptr, content.data(), 1, Way::to_device) == EINVAL);
  CHECK(device.copy(nullptr, area.at(), nullptr, 1, Way::to_device) == EINVAL);
}

// Each copy reads what the one before wrote.
void a_stream_keeps_its_order(Device& device) {
  const Area area(device, 1);
  const OwnStream stream(device);
  Bytes content = pattern(4096, 6);
  REQUIRE(device.copy(stream, area.at(), content.data(), content.size(), Way::to_device) == 0);
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE(device.copy(stream, area.at((i + 1) * 4096), area.at(i * 4096), 4096, Way::on_device) == 0);
  }
  Bytes back(content.size());
  REQUIRE(device.copy(stream, back.data(), area.at(std::uint64_t{200} * 4096), back.size(), Way::to_host) ==
          0);
  CHECK(finish(device, stream) == 0);
  CHECK(back == content);
}

void streams_do_not_wait_for_each_other(Device& device) {
  const Area area(device, 1);
  const OwnStream held(device);
  const OwnStream free(device);
  const OwnEvent reached(device);
  Gate gate;
  gate.queue(device, held);
  REQUIRE(device.record(reached, held) == 0);
  const Bytes content = pattern(100, 7);
  REQUIRE(device.copy(free, area.at(), content.data(), content.size(), Way::to_device) == 0);
  CHECK(finish(device, free) == 0);
  CHECK(device.query(reached) == EBUSY);
  gate.open();
  CHECK(device.synchronize(reached) == 0);
  CHECK(device.query(reached) == 0);
}

void a_stream_waits_for_an_event_of_another(Device& device) {
  const Area area(device, 1);
  const OwnStream writer(device);
  const OwnStream reader(device);
  const OwnEvent written(device);
  put(device, area.at(), pattern(mib, 8));
  const Bytes content = pattern(mib, 9);
  Bytes back(content.size());
  Gate gate;
  gate.queue(device, writer);
  REQUIRE(device.copy(writer, area.at(), content.data(), content.size(), Way::to_device) == 0);
  REQUIRE(device.record(written, writer) == 0);
  REQUIRE(device.wait(reader, written) == 0);
  REQUIRE(device.copy(reader, back.data(), area.at(), back.size(), Way::to_host) == 0);
  gate.open();
  CHECK(finish(device, reader) == 0);
  CHECK(back == content);
}

// cudaStreamWaitEvent: what is recorded later does not concern who waits already.
void a_wait_means_the_record_at_its_time(Device& device) {
  const Area area(device, 1);
  const OwnStream writer(device);
  const OwnStream reader(device);
  const OwnEvent event(device);
  Gate first;
  Gate second;
  first.queue(device, writer);
  REQUIRE(device.record(event, writer) == 0);
  REQUIRE(device.wait(reader, event) == 0);
  second.queue(device, writer);
  REQUIRE(device.record(event, writer) == 0);
  first.open();
  CHECK(finish(device, reader) == 0);  // although the event is at its second record
  CHECK(device.query(event) == EBUSY);
  second.open();
  CHECK(device.synchronize(event) == 0);
}

void an_event_may_go_while_it_is_waited_for(Device& device) {
  const OwnStream writer(device);
  const OwnStream reader(device);
  Gate gate;
  gate.queue(device, writer);
  {
    const OwnEvent event(device);
    REQUIRE(device.record(event, writer) == 0);
    REQUIRE(device.wait(reader, event) == 0);
  }
  gate.open();
  CHECK(finish(device, reader) == 0);
}

void an_event_never_recorded_has_passed(Device& device) {
  const OwnEvent event(device);
  const OwnStream stream(device);
  CHECK(device.query(event) == 0);
  CHECK(device.synchronize(event) == 0);
  CHECK(device.wait(stream, event) == 0);
  CHECK(finish(device, stream) == 0);
}

void a_destroyed_stream_finishes_first(Device& device) {
  const Area area(device, 4);
  const Bytes content = pattern(8 * mib, 10);
  Bytes back(content.size());
  {
    const OwnStream stream(device);
    REQUIRE(device.copy(stream, area.at(), content.data(), content.size(), Way::to_device) == 0);
    REQUIRE(device.copy(stream, back.data(), area.at(), back.size(), Way::to_host) == 0);
  }
  CHECK(back == content);
}

void host_functions_run_in_turn(Device& device) {
  const OwnStream stream(device);
  struct Turn {
    std::atomic<int>* next;
    int number;
    bool in_order;
  };
  std::atomic<int> next{0};
  std::vector<Turn> turns;
  turns.reserve(100);
  for (int i = 0; i < 100; ++i) turns.push_back({&next, i, false});
  const auto run = [](void* argument) {
    auto* const turn = static_cast<Turn*>(argument);
    turn->in_order = turn->next->fetch_add(1) == turn->number;
  };
  for (Turn& turn : turns) REQUIRE(device.call_host(stream, run, &turn) == 0);
  CHECK(finish(device, stream) == 0);
  for (const Turn& turn : turns) CHECK(turn.in_order);
  CHECK(device.call_host(stream, nullptr, nullptr) == EINVAL);
  CHECK(device.launch(stream, Kernel{}) == EINVAL);
}

void pinned_memory_is_copied_from_and_to(Device& device) {
  constexpr std::uint64_t bytes = 256 << 10;
  void* const host = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(host != MAP_FAILED);
  auto* const begin = static_cast<std::uint8_t*>(host);
  const int error = device.pin(host, bytes);
  if (error == EPERM || error == EAGAIN) {
    WARN("SKIP: the limit on locked memory: " << device.error_text());
  } else {
    REQUIRE(error == 0);
    CHECK(device.pin(host, bytes) == EEXIST);
    CHECK(device.pin(begin + 1, 4096) == EINVAL);
    CHECK(device.pin(host, 0) == EINVAL);
    const Area area(device, 1);
    const Bytes content = pattern(bytes, 11);
    std::copy(content.begin(), content.end(), begin);
    REQUIRE(device.copy(nullptr, area.at(), host, bytes, Way::to_device) == 0);
    CHECK(get(device, area.at(), bytes) == content);
    CHECK(device.unpin(begin + 4096) == EINVAL);
    CHECK(device.unpin(host) == 0);
    CHECK(device.unpin(host) == EINVAL);
  }
  ::munmap(host, bytes);
}

void many_threads_use_one_device(Device& device) {
  std::atomic<int> wrong{0};
  const auto work = [&](std::uint8_t seed) {
    std::byte* base = nullptr;
    Frame frame;
    Stream stream = nullptr;
    Event event = nullptr;
    for (int round = 0; round < 20; ++round) {
      int error = device.reserve_address(2 * mib, &base) | device.create_frame(Place::device, &frame) |
                  device.map(base, {&frame, 1}) | device.create_stream(&stream) | device.create_event(&event);
      const Bytes content = pattern(5000, static_cast<std::uint8_t>(seed + round));
      Bytes back(content.size());
      error |= device.copy(stream, base, content.data(), content.size(), Way::to_device) |
               device.copy(stream, back.data(), base, back.size(), Way::to_host) |
               device.record(event, stream) | device.synchronize(event) | device.destroy_event(event) |
               device.destroy_stream(stream) | device.unmap(base, 2 * mib) | device.destroy_frame(frame) |
               device.release_address(base, 2 * mib);
      if (error != 0 || back != content) wrong++;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, static_cast<std::uint8_t>(40 * i));
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

struct Promise {
  const char* name;
  void (*check)(Device&);
};
#define TERRACE_PROMISE(name) \
  Promise { #name, name }
const Promise promises[] = {
    TERRACE_PROMISE(it_says_what_it_is),
    TERRACE_PROMISE(address_ranges_are_whole_frames),
    TERRACE_PROMISE(a_frame_is_mapped_at_one_place_at_most),
    TERRACE_PROMISE(what_is_mapped_is_not_mapped_over),
    TERRACE_PROMISE(what_is_not_mapped_is_not_unmapped),
    TERRACE_PROMISE(contents_follow_a_frame),
    TERRACE_PROMISE(frames_in_host_memory_keep_an_address_valid),
    TERRACE_PROMISE(copies_have_no_alignment),
    TERRACE_PROMISE(a_stream_keeps_its_order),
    TERRACE_PROMISE(streams_do_not_wait_for_each_other),
    TERRACE_PROMISE(a_stream_waits_for_an_event_of_another),
    TERRACE_PROMISE(a_wait_means_the_record_at_its_time),
    TERRACE_PROMISE(an_event_may_go_while_it_is_waited_for),
    TERRACE_PROMISE(an_event_never_recorded_has_passed),
    TERRACE_PROMISE(a_destroyed_stream_finishes_first),
    TERRACE_PROMISE(host_functions_run_in_turn),
    TERRACE_PROMISE(pinned_memory_is_copied_from_and_to),
    TERRACE_PROMISE(many_threads_use_one_device),
};
#undef TERRACE_PROMISE

}  // namespace

void check_conformance(const OpenDevice& open) {
  for (const Promise& promise : promises) {
    SECTION(promise.name) {
      const std::unique_ptr<Device> device = open();
      REQUIRE(device != nullptr);
      promise.check(*device);
    }
  }
}

}  // namespace terrace::tiers::gpu::test
