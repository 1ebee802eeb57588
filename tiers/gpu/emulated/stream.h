// Streams and events of the emulated device.
//
// A stream is a queue and a thread that works it off in order. What is brief, a mark or a small copy that no
// link's speed holds up, is done by whoever queues it when nothing is before it. An event points at a mark:
// the place in a stream where it was last recorded. Recording again makes a new mark, so whoever waits for
// the old one is not disturbed: a wait means the record at the moment of the call, as cudaStreamWaitEvent
// says.
//
//   stream A  │ copy │ mark 1 │ kernel │ mark 2 │         event ──► mark 2 (before: mark 1)
//   stream B  │ wait for mark 1 │ copy │                  queued while the event was at mark 1
//
// A task that fails ends its stream's work: what is queued behind is passed over, and marks behind carry the
// error to whoever asks or waits. Streams that wait for such a mark end with the same error.
//
// A stream may lag: what is queued in it has its turn `lag_ns` after it was queued, not before. The default
// stream of a device does (device.h), whose work the program has done itself, on the host, by then.
// What follows a wait in that stream has been done on the host, too, before the wait is over, although it
// comes behind it. So the bytes that others are to move first are moved when the wait is queued
// (work_ahead()), and only the time that this takes passes in its turn:
//
//   host       │ x = f() │ queue copy of x │ wait for mark 1 │ free x │ y = g() in x's memory
//   stream A   ······························ lag ······· │ ready │    mark 1 passed │ y done
//   stream B                              bytes moved ▲      │ copy's time │ mark 1
//
// Without the wait the copy reads y, as it would on a GPU.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {

struct StreamObject;

class EmulatedMark {
 public:
  explicit EmulatedMark(std::weak_ptr<StreamObject> stream) noexcept : stream_(std::move(stream)) {}
  void pass(int error) noexcept;
  int query() noexcept;  // EBUSY until passed, then what pass() said
  int wait() noexcept;   // blocks, then what pass() said
  // Moves the bytes that everything before the mark moves, up to the first function of the host's
  // (Ahead::never). The mark passes when it would have passed.
  void work_ahead();

 private:
  const std::weak_ptr<StreamObject> stream_;
  std::mutex mutex_;
  std::condition_variable passed_;
  bool has_passed_ = false;  // guarded by mutex_
  int error_ = 0;            // guarded by mutex_
};

using EmulatedMarkPointer = std::shared_ptr<EmulatedMark>;

// The two handles of device.h.
struct EventObject {
  EmulatedMarkPointer latest() {
    const std::lock_guard lock(mutex);
    return mark;
  }

  std::mutex mutex;
  EmulatedMarkPointer mark;  // guarded by mutex; null: never recorded
};

// What of a task is asked for: all of it, or, where its bytes are moved ahead of its turn, either half.
enum class Part : std::uint8_t { whole, bytes, time };
enum class Ahead : std::uint8_t { may, never };

struct StreamObject : std::enable_shared_from_this<StreamObject> {
 public:
  using Task = std::function<int(Part)>;

  // Throws std::system_error when no thread can be started.
  explicit StreamObject(std::uint64_t lag_ns = 0);
  ~StreamObject();  // finishes its work

  // These may throw std::bad_alloc, and have done nothing then. A task is 0 or the errno that ends the
  // stream's work; one that is brief waits for nothing and calls nothing of the caller's.
  void push(Task task, bool is_brief, Ahead ahead);
  void push_record(EventObject& event);
  void push_wait(EmulatedMarkPointer mark);
  void work_ahead_to(const EmulatedMark& mark);  // see EmulatedMark::work_ahead()

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Item {  // one of a mark to pass, one to wait for, and a task
    EmulatedMarkPointer mark{};
    EmulatedMarkPointer awaited{};
    Task task{};
    Ahead ahead = Ahead::may;
    std::uint64_t due_ns = 0;
    bool is_ahead = false;  // its bytes are moved; for a mark to wait for: those before it are
    int error = 0;          // of what was done ahead, or of the mark that was waited for
  };
  void push_item(Item item, bool is_brief);
  void run();
  void await_turn(Lock& lock);
  void run_item(Item& item, Lock& lock);
  Item* first_behind_time(const EmulatedMark& mark);
  void move_bytes(Item& item, Lock& lock);

  const std::uint64_t lag_ns_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;  // guarded by mutex_; the first may have its turn now
  bool closing_ = false;    // guarded by mutex_
  bool working_ = false;    // guarded by mutex_: somebody runs an item
  int error_ = 0;           // of whoever is working
  std::thread thread_;
};

}  // namespace terrace::tiers::gpu
