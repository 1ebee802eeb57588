// Carries a schedule out: says what is due at an ordinal, and which transfer each link moves next.
//
//     advance(ordinal) ─▶ cursor ─take()─▶ drop, redo, wait: the caller does them, in this order
//                                     └──▶ out, in ─ask()─▶ deadline queues ─next(lane)─▶ start() ─▶ done()
//                                                            out │ in of each link
//
// The same source in the simulator, in the pager and in the offload engine, so that what was predicted is
// what runs. It has no clock (ordinals come from the caller), starts nothing by itself and allocates nothing:
// its memory is the caller's. One thread at a time; no call takes longer than O(log n) but where it says so.
//
// A node is one request to move something. Nodes below the number of entries are those entries. The caller
// has `extra` more for what no entry names: victims, and what is fetched because somebody waits for it. Where
// objects lie, and whether there is room, only the caller knows; what is here:
//
// * What waits is called off when the opposite of any of its bytes is asked for; if it held all of those,
//   neither moves: an object that is wanted back before it left has never left. Bytes that wait already are
//   not asked for twice.
// * A lane serves urgent requests, then by the schedule's order: by deadline or by who asked first.
//   Deadlines count on from period to period, so what leaves late in one and returns early in the next keeps
//   its place.
// * Feedback: late() and early() move the trigger of an `in` by a twentieth of the way between its begin and
//   its deadline (Capuchin, ASPLOS 2020, section 4.4, moves by 5% of the swap's time), at least by one
//   ordinal; from the next period on. A trigger stays within its period, not before the object left, and not
//   after its deadline.
// * depart(): the program has left the sequence. Nothing is due any more and nothing waits; what is under way
//   ends as it would. away_bytes() tells what the reactive policy has to know. begin_period() follows again.
//
// Entries are trusted here: open_schedule() or the planner's checks have looked at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/wire/schedule/deadline_queues.h"
#include "liballoc/wire/schedule/schedule.h"

namespace terrace::wire {

enum class Way : std::uint8_t { out, in };

struct ExecutorPlan {
  std::span<const ScheduleEntry> entries;
  std::span<const ScheduleObject> objects;
  std::uint32_t period = 0;
  Order out_order = Order::asked, in_order = Order::asked;
  std::uint32_t links = 1;
  std::uint32_t extra = 0;  // nodes beside the entries

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(entries.size()) + extra; }
};

class Executor {
 public:
  static constexpr std::uint32_t none = DeadlineQueues::none;
  static constexpr std::uint32_t lane(std::uint32_t link, Way way) {
    return link * 2 + (way == Way::in ? 1 : 0);
  }

  // The memory must be aligned to 8, and with what the plan points to outlive the executor. Takes O(n). The
  // first period has begun.
  static std::size_t memory_bytes(const ExecutorPlan& plan) noexcept;
  Executor(const ExecutorPlan& plan, std::byte* memory) noexcept;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // --- the cursor

  // The program is just before this event; back and beyond the period's end does not count.
  void advance(std::uint32_t ordinal) noexcept;
  // The next entry that is due, in the schedule's order with triggers as feedback moved them; or none.
  std::uint32_t take() noexcept;
  // The ordinal at which take() gives the next entry; or none.
  std::uint32_t next_trigger() const noexcept;
  // The event that would be next is the first one of a period. O(1), O(n log n) after feedback. What was due
  // and was not taken is missed.
  void begin_period() noexcept;
  // O(what waits).
  void depart() noexcept;
  bool is_following() const noexcept { return following_; }
  std::uint32_t ordinal() const noexcept { return ordinal_; }
  std::uint64_t missed() const noexcept { return missed_; }   // since the beginning
  std::uint32_t trigger(std::uint32_t entry) const noexcept;  // of this period

  // --- requests

  enum class Asked : std::uint8_t {
    waits,       // in its lane
    there,       // all its bytes wait the same way already, or this node is waiting or under way
    called_off,  // the opposite of all its bytes waited: it was called off, and neither moves
  };
  // An entry that take() gave: its own bytes and deadline.
  Asked ask(std::uint32_t entry, std::uint32_t link) noexcept;
  // For an extra node; its deadline is now.
  struct Request {
    std::uint32_t object = 0;
    std::uint64_t begin = 0, bytes = whole_object;
    Way way = Way::out;
    std::uint32_t link = 0;
    bool urgent = false;
  };
  Asked ask_extra(std::uint32_t node, const Request& request) noexcept;
  // Somebody waits for it now: it goes before all that are not urgent. Nothing if it does not wait.
  void hurry(std::uint32_t node) noexcept;
  void call_off(std::uint32_t node) noexcept;  // nothing if it does not wait
  // A node that waits and belongs to the object, or none. Of several the one that was asked for last.
  std::uint32_t waiting_of(std::uint32_t object) const noexcept { return first_[object]; }

  // Who moves next over the lane; or none. The caller starts it when there is room, or lets it wait: nobody
  // overtakes it then.
  std::uint32_t next(std::uint32_t lane) const noexcept { return queues_.front(lane); }
  std::span<const std::uint32_t> waiting(std::uint32_t lane) const noexcept { return queues_.waiting(lane); }
  bool is_urgent(std::uint32_t node) const noexcept { return queues_.is_urgent(node); }  // of one that waits
  void start(std::uint32_t node) noexcept;  // of one that waits: it is under way
  void done(std::uint32_t node) noexcept;   // of one under way: it has arrived
  void abort(std::uint32_t node) noexcept;  // of one under way: it has stayed where it was
  bool is_under_way(std::uint32_t node) const noexcept { return states_[node] == State::under_way; }

  // --- feedback, of an `in` that take() gave
  void late(std::uint32_t entry) noexcept;   // somebody waited for it
  void early(std::uint32_t entry) noexcept;  // its memory was in use long before it was needed

  // --- where objects are, as far as transfers ended
  std::uint64_t away_bytes(std::uint32_t object) const noexcept { return away_[object]; }
  // The caller moved it, or it was away when following began.
  void set_away(std::uint32_t object, std::uint64_t bytes) noexcept { away_[object] = bytes; }
  // It was freed, or its content dropped: nothing of it is away, or waits.
  void forget(std::uint32_t object) noexcept;

 private:
  enum class State : std::uint8_t { idle, under_way };
  struct Bytes {
    std::uint32_t object;
    std::uint64_t begin, end;
  };
  struct Extra {
    Bytes bytes;
    Way way;
  };
  struct Links {  // in the list of the object's nodes that wait
    std::uint32_t before, after;
  };

  bool is_extra(std::uint32_t node) const noexcept { return node >= plan_.entries.size(); }
  Bytes bytes_of(std::uint32_t node) const noexcept;
  Bytes bytes_of(std::uint32_t object, std::uint64_t begin, std::uint64_t bytes) const noexcept;
  Way way_of(std::uint32_t node) const noexcept;
  std::uint64_t rank(std::uint64_t deadline, Way way) const noexcept;
  Asked enter(std::uint32_t node, std::uint32_t link, std::uint64_t deadline, bool urgent) noexcept;
  void link_in(std::uint32_t node, std::uint32_t object) noexcept;
  void link_out(std::uint32_t node) noexcept;
  void shift(std::uint32_t entry, std::int32_t direction) noexcept;
  void order_by_trigger() noexcept;

  ExecutorPlan plan_;
  DeadlineQueues queues_;
  std::uint64_t* away_;      // by object
  Extra* extras_;            // by node, from the first extra one on
  Links* links_;             // by node; of those that wait
  std::int32_t* shifts_;     // by entry, in ordinals; this and the next two are written by the first feedback
  std::uint32_t* triggers_;  // by entry
  std::uint32_t* way_;       // the cursor's way: entries by trigger
  std::uint32_t* first_;     // by object: of its list
  std::uint32_t* left_at_;   // by object: scratch of order_by_trigger()
  State* states_;            // by node
  std::uint64_t base_ = 0;   // ordinals of the periods before
  std::uint64_t missed_ = 0;
  std::uint32_t ordinal_ = 0, cursor_ = 0;
  bool following_ = true;
  bool shifted_ = false;        // by feedback, once
  bool shift_pending_ = false;  // since this period began
};

}  // namespace terrace::wire
