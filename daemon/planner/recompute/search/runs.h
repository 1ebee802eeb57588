// A schedule as nothing but the order in which operations run: what lies in memory follows from it.
//
//     runs       a   b   c   d   a   e            a makes s, which b and e read
//     s          *===x           *===x            held from the run that makes it to its last reader before
//                                                 it is made again, and not a moment longer
//
// No schedule with the same runs needs less memory, since nobody can read what is not there, and each content
// is free as soon as nobody will. So a search only decides what runs again and where. Memory at a run: the
// constants, what is held over it, and all results and the workspace of its operation (check_schedule()).
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/schedule.h"
#include "daemon/planner/recompute/search/carrying.h"

namespace terrace::planner::recompute {

// The schedule with these runs that frees everything as early as possible.
Schedule schedule_of(const Step& step, const Runs& runs);
Runs runs_of(const Schedule& schedule);
std::int64_t cost_ns_of(const Step& step, const Runs& runs);

// Who holds what when; looked at again for other runs, it takes no new memory. Not for several threads.
class Holding {
 public:
  explicit Holding(const Step& step);

  // Linear in the runs and what they name. Every read must have a run before it that makes it.
  void look(const Runs& runs);
  // Beside a link that carries contents; O(n log n) in them on top.
  void look(const Runs& runs, const std::vector<Carried>& carried, const Link& link);

  struct Peak {
    std::uint64_t bytes = 0;
    std::uint32_t run = 0;
  };
  Peak peak() const { return peak_; }
  // Whether some result of the run is read, or kept, before it is made again.
  bool is_used(std::uint32_t run) const { return used_[run] != 0; }
  // Held over the run, not read by it: made before and needed later.
  bool holds_over(std::uint32_t storage, std::uint32_t run) const;

  // Of the runs beside a link that were looked at last; of others nothing.
  const Carrying& carrying() const { return carrying_; }
  const Timetable& times() const { return times_; }

  // What rests in memory at a run: a storage, beside a link the run that named it last, and the run before
  // which it is needed next (runs.size(): at the end). Constants rest beside a link alone, between two reads.
  struct Rest {
    std::uint32_t storage = 0, last = 0, needed = 0;
  };
  void rests_at(std::uint32_t run, const Runs& runs, std::vector<Rest>* rests);

 private:
  struct Span {  // of a content: made by run `begin`, needed last by run `end`
    std::uint32_t begin = 0, end = 0, before = 0;
  };
  static constexpr std::uint32_t none = nothing;

  const Step& step_;
  std::vector<Span> spans_;
  std::vector<std::uint32_t> last_span_;    // per storage
  std::vector<char> used_;                  // per run
  std::vector<std::int64_t> change_;        // of what is held, per run
  std::vector<std::uint32_t> last_, next_;  // per storage: scratch of rests_at()
  bool carries_ = false;                    // beside a link
  Carrying carrying_;
  Timetable times_;
  Peak peak_;

  void measure(const Runs& runs);
  void find_spans(const Runs& runs);
  void find_times(const Runs& runs);
  void find_last(std::uint32_t run, const Runs& runs);
  // Of a constant: a link could carry it between two reads.
  bool rests_unread(std::uint32_t storage) const {
    return carries_ && last_[storage] != nothing && next_[storage] != nothing;
  }
  void add(std::uint32_t begin, std::uint32_t end, std::int64_t bytes);
};

}  // namespace terrace::planner::recompute
