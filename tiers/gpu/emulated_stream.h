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
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {

class EmulatedMark {
 public:
  void pass(int error) noexcept;
  int query() noexcept;  // EBUSY until passed, then what pass() said
  int wait() noexcept;   // blocks, then what pass() said

 private:
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

struct StreamObject {
 public:
  using Task = std::function<int()>;

  StreamObject();   // throws std::system_error when no thread can be started
  ~StreamObject();  // finishes its work

  // These may throw std::bad_alloc, and have done nothing then. A task is 0 or the errno that ends the
  // stream's work; one that is brief waits for nothing and calls nothing of the caller's.
  void push(Task task, bool is_brief);
  void push_record(EventObject& event);
  void push_wait(EmulatedMarkPointer mark);

 private:
  struct Item {
    Task task;  // empty: a mark to pass
    EmulatedMarkPointer mark;
  };
  void push_item(Item item, bool is_brief);
  void run();
  void run_item(Item& item, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;  // guarded by mutex_
  bool closing_ = false;    // guarded by mutex_
  bool working_ = false;    // guarded by mutex_: somebody runs an item
  int error_ = 0;           // of whoever is working
  std::thread thread_;
};

}  // namespace terrace::tiers::gpu
