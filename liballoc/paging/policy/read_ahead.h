// What is likely to be touched next, learned from what followed last time: each run remembers which run was
// brought back after it. On a cycle that is the next one; where nothing was learned it is the next run in
// memory. Each thread has a sequence of its own: those of two that share a tensor, woven into one, would lead
// back into that tensor. Each use asks for the runs behind it that are away, and what is next in one stream
// of a program comes before what is far ahead in another. Pure but for its table, of which only what is used
// is touched.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class ReadAhead {
 public:
  int initialise(std::uint32_t runs) {
    next_ = static_cast<std::uint32_t*>(
        os::map_anonymous(std::size_t{runs} * sizeof(std::uint32_t), PROT_READ | PROT_WRITE));
    runs_ = runs;
    return next_ == nullptr ? ENOMEM : 0;
  }

  // A thread touched run n, which had been away. `is_away` tells what of what follows would have to be read;
  // `arrivals`: how many runs have come, ever.
  template <typename IsAway>
  void used(std::uint32_t thread, std::uint32_t n, std::uint32_t arrivals, const IsAway& is_away) {
    Toucher& toucher = touchers_[thread % most_touchers];
    if (toucher.thread != thread) toucher = {.thread = thread};
    if (toucher.last != none && toucher.last != n) next_[toucher.last] = n + 1;
    toucher.last = n;
    std::uint32_t found = 0;
    for (std::uint32_t i = 0, at = n; i < depth && found < most_near + most_far; ++i) {
      at = after(at);
      if (at >= runs_ || at == n) return;
      if (is_away(at)) (found++ < most_near ? near_ : far_).push({at, arrivals});
    }
  }
  // The next run that `is_wanted(run, arrivals when it was asked for)`; `none` when there is none. What was
  // not read in time may have come, been used and left since: then it is not what is touched next.
  template <typename IsWanted>
  std::uint32_t pop(const IsWanted& is_wanted) {
    while (!is_empty()) {
      const Wanted next = (near_.is_empty() ? far_ : near_).pop();
      if (is_wanted(next.run, next.asked)) return next.run;
    }
    return none;
  }
  bool is_empty() const { return near_.is_empty() && far_.is_empty(); }
  void clear() {
    near_.clear();
    far_.clear();
    for (Toucher& toucher : touchers_) toucher.last = none;
  }

 private:
  // What lies between a run and the one that followed was there then, and may have left since.
  std::uint32_t after(std::uint32_t run) const {
    constexpr std::uint32_t near = 64;
    const std::uint32_t next = next_[run] == 0 ? run + 1 : next_[run] - 1;
    return next > run && next - run <= near ? run + 1 : next;
  }

  struct Wanted {
    std::uint32_t run = none;
    std::uint32_t asked = 0;  // in arrivals
  };

  // What came first goes first, and is forgotten first.
  class Ring {
   public:
    bool is_empty() const { return tail_ == head_; }
    void clear() { tail_ = head_; }
    void push(Wanted wanted) {
      wanted_[head_++ % capacity] = wanted;
      if (head_ - tail_ > capacity) tail_ = head_ - capacity;
    }
    Wanted pop() { return wanted_[tail_++ % capacity]; }

   private:
    static constexpr std::uint32_t capacity = 64;
    Wanted wanted_[capacity] = {};
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0;
  };

  struct Toucher {
    std::uint32_t thread = 0;
    std::uint32_t last = none;
  };

  static constexpr std::uint32_t most_touchers = 64;
  static constexpr std::uint32_t depth = 64;
  static constexpr std::uint32_t most_near = 4;
  static constexpr std::uint32_t most_far = 28;

  std::uint32_t* next_ = nullptr;  // by run: the number of what followed, plus one; 0: nothing yet
  std::uint32_t runs_ = 0;
  Toucher touchers_[most_touchers] = {};
  Ring near_;
  Ring far_;
};

}  // namespace terrace::liballoc
