// How far streams have come, at the price of few events.
//
// A mark says "behind the n-th event of a stream". While the heap knows one stream only, nobody waits for
// anything but frames that move, so an event stands for up to `batch` frees; from the second stream on each
// free records its own, so that another stream waits for the work before that free and for nothing after it.
// (Marks of the first stream that are open at that moment get an event behind them: later than the free, and
// safe.) That holds for the default stream alone, which lives for ever: what is freed in another is recorded
// at once, since a stream may be destroyed, or be another one when another thread names it.
//
// A stream that the caller says is ending gets its last event then, and its number waits until all its marks
// have passed; only then a new stream may have it. So no stream takes over the memory of an old one of the
// same address, whose work may still run. The threads' own default streams have one address, and a number for
// each thread; a number whose marks have all passed, and which no live block is recorded for, may go on to
// another thread. Where a thread needs an
// event behind the work of another's own stream, the legacy default stream has it: that runs behind all of
// them.
//
// If an event cannot be recorded, its marks never pass, and only the same stream reuses the memory.
//
// Not thread-safe. Errors are errno values from the device.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "liballoc/gpu/heap/mark.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class StreamClocks {
 public:
  using Stream = tiers::gpu::Stream;
  static constexpr std::uint32_t batch = 32;

  explicit StreamClocks(tiers::gpu::Device& device) : device_(device) {}
  ~StreamClocks();
  StreamClocks(const StreamClocks&) = delete;
  StreamClocks& operator=(const StreamClocks&) = delete;

  // The stream's number; a stream that is new gets the next one.
  Owner owner(Stream stream);
  // The stream is about to be destroyed: its marks will pass, and its address may come again for another.
  void end(Stream stream);
  // Until as many calls of let_go() the number is no other stream's, whether it has marks or not: a block
  // that is in use there will be marked when it is freed.
  void keep(Owner owner) { ++clocks_[owner - 1].kept; }
  void let_go(Owner owner) { --clocks_[owner - 1].kept; }
  // Behind everything that is in the stream now.
  Mark mark(Owner owner);
  // Records an event behind the marks that have none yet, so that they can pass.
  void flush();
  // Whether the host knows that it has passed; asks the device, never waits.
  bool passed(const Mark& mark);
  // The stream's work from now on runs behind the mark. 0 also if it has passed.
  int order(Stream stream, const Mark& mark);
  // The host waits for the mark.
  int wait(const Mark& mark);
  [[nodiscard]] std::uint64_t events_recorded() const { return recorded_; }

 private:
  struct Pending {
    std::uint64_t sequence;
    tiers::gpu::Event event;
  };
  struct Clock {
    Stream stream = nullptr;
    std::uint64_t thread = 0;  // whose own stream it is; 0: it is no such stream
    bool ended = false;
    std::uint64_t next = 1;    // the event that the next record() makes
    std::uint64_t passed = 0;  // all events up to here have passed
    std::uint32_t unrecorded = 0;
    std::uint32_t kept = 0;
    std::deque<Pending> pending;
  };

  bool is_free(Clock* clock);
  int record(Clock* clock);
  int event_for(Clock* clock, const Mark& mark, tiers::gpu::Event* event);
  void poll(Clock* clock);

  tiers::gpu::Device& device_;
  std::vector<Clock> clocks_;  // clocks_[owner - 1]
  std::vector<tiers::gpu::Event> spare_;
  std::uint64_t recorded_ = 0;
  Owner latest_ = nobody;
};

}  // namespace terrace::liballoc::gpu
