// Images of schedules from anybody: through the reader, and what it lets through is carried out for three
// periods, written again, and the same.
//
// The first byte chooses: the input as it is; the input with its checksum put right; a right image with
// (offset, value) pairs stored into it and its checksum put right. The bytes that follow the first one also
// drive the executor: what a program does, and how its transfers end.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "liballoc/wire/schedule/executor.h"
#include "liballoc/wire/schedule/image.h"

using namespace terrace::wire;

namespace {

constexpr std::uint32_t links = 2, extra = 4;

void require(bool right) {
  if (!right) std::abort();
}

std::string with_sum(std::string image) {
  if (image.size() < sizeof(ImageHeader)) return image;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, image.data() + offsetof(ImageHeader, image_bytes), sizeof bytes);
  if (bytes < sizeof(ImageHeader) || bytes > image.size()) return image;
  const std::uint64_t sum = XXH3_64bits(image.data() + image_checksum_end, bytes - image_checksum_end);
  std::memcpy(image.data() + offsetof(ImageHeader, checksum), &sum, sizeof sum);
  return image;
}

std::string changed_image(const std::uint8_t* data, std::size_t size) {
  Schedule s{"", "fuzz", {}};
  s.period = 8;
  s.objects = {{1, 4096, persistent, 0}, {2, 100, 1, 0}, {3, 0, 2, 0}};
  s.entries = {{1, 0, Action::out, 1, 1, 7, 0, 4096}, {2, 1, Action::out, 1, 0, 9, 0, 60},
               {2, 1, Action::out, 1, 0, 9, 60, 40},  {3, 2, Action::wait, 0, 0, 3},
               {4, 1, Action::in, 1, 0, 9},           {5, 0, Action::in, 1, 0, 10}};
  std::string image = *schedule_image(s, {"dram", "nvme"}, {"zvc"});
  for (; size >= 3; data += 3, size -= 3) {
    std::uint16_t at = 0;
    std::memcpy(&at, data, sizeof at);
    image[at % image.size()] = static_cast<char>(data[2]);
  }
  return with_sum(std::move(image));
}

// Something to do for each byte; its promises hold after all of them.
class Driven {
 public:
  Driven(const ExecutorPlan& plan, const std::uint8_t* data, std::size_t size)
      : plan_(plan),
        data_(data),
        size_(size),
        memory_(new std::byte[Executor::memory_bytes(plan)]),
        executor_(plan, memory_.get()) {}

  void run() {
    for (int period = 0; period < 3; ++period) {
      for (std::uint32_t step = 0; step < 16; ++step) {
        executor_.advance(step * plan_.period / 15);
        for (std::uint32_t e = executor_.take(); e != Executor::none; e = executor_.take()) carry_out(e);
        move();
        disturb(next());
      }
      executor_.begin_period();
    }
  }

 private:
  const ExecutorPlan& plan_;
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  Executor executor_;
  std::vector<std::uint32_t> under_way_;

  std::uint32_t next() { return size_ == 0 ? 0 : data_[at_++ % size_]; }

  void carry_out(std::uint32_t entry) {
    const ScheduleEntry& e = plan_.entries[entry];
    require(executor_.trigger(entry) <= executor_.ordinal());
    if (moves(e.action)) executor_.ask(entry, next() % links);
    if (e.action == Action::drop) executor_.forget(e.object);
  }

  void move() {
    for (std::uint32_t lane = 0; lane < links * 2; ++lane) {
      const std::uint32_t node = executor_.next(lane);
      if (node == Executor::none || next() % 4 == 0) continue;
      executor_.start(node);
      under_way_.push_back(node);
    }
    if (under_way_.empty() || next() % 2 == 0) return;
    const std::uint32_t node = under_way_.back();
    under_way_.pop_back();
    require(executor_.is_under_way(node));
    next() % 8 == 0 ? executor_.abort(node) : executor_.done(node);
  }

  void disturb(std::uint32_t choice) {
    if (plan_.objects.empty()) return;
    const auto object = static_cast<std::uint32_t>(next() % plan_.objects.size());
    const std::uint32_t node = next() % plan_.nodes();
    if (choice % 8 == 0) executor_.depart();
    if (choice % 8 == 1) {
      executor_.ask_extra(static_cast<std::uint32_t>(plan_.entries.size()) + choice / 8 % extra,
                          {.object = object, .way = choice % 16 == 1 ? Way::in : Way::out, .urgent = true});
    }
    if (choice % 8 == 2) executor_.hurry(node);
    if (choice % 8 == 3 && node < plan_.entries.size()) executor_.late(node);
    if (choice % 8 == 4 && node < plan_.entries.size()) executor_.early(node);
    if (choice % 8 == 5) executor_.call_off(node);
    require(executor_.away_bytes(object) <= plan_.objects[object].bytes);
  }
};

void open(const std::string& bytes, const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const OpenedSchedule opened = open_schedule(std::as_bytes(std::span(aligned)).first(bytes.size()));
  require(bool(opened) == describe_fault(opened).empty());
  if (!opened) return require(opened.view.header == nullptr && opened.view.entries.empty());
  const ScheduleView& view = opened.view;
  const ExecutorPlan plan{
      view.entries, view.objects, view.header->period, view.header->out_order, view.header->in_order,
      links,        extra};
  Driven(plan, data, size).run();
  std::vector<std::string> tiers, codecs;
  for (const ImageTier& tier : view.tiers) tiers.emplace_back(text_of(tier.name));
  for (const ImageCodec& codec : view.codecs) codecs.emplace_back(text_of(codec.name));
  const auto written = schedule_image(schedule_of(view), tiers, codecs);
  require(bool(written));
  const OpenedSchedule back = open_schedule(std::as_bytes(std::span(*written)));
  require(back && back.view.entries.size() == view.entries.size());
  require(*schedule_image(schedule_of(back.view), tiers, codecs) == *written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      open(bytes, data, size);
      break;
    case 1:
      open(with_sum(bytes), data, size);
      break;
    default:
      open(changed_image(data + 1, size - 1), data, size);
  }
  return 0;
}
