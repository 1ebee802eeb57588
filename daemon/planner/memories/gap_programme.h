// A step on two memories as a linear programme: at each use and in each gap between two uses, how much of a
// tensor lies in the fast memory.
//
//     a[u]    share that use u finds in the fast memory
//     h[u]    share that stays there from use u to the tensor's next use
//     m[u,j]  share that moves in for use u, in window j;  s[u]: the same while the computation waits
//     w[v,j]  share of what write v made that is copied to the slow memory in window j
//     e[i]    what operation i takes beyond its time;  L[j]: how long window j is
//
//     minimise   sum of L[j] + sum of s[u] bytes / in-rate
//          a[u] <= h[use before u] + sum of m[u,j] + s[u]     but for a birth
//          h[u] <= a[u]
//          sum of w[v,j] >= a[v] - h[u]                       for each gap after u of what v wrote, up to its
//          end e[i] + sum of extra[u] a[u] >= sum of extra[u] - hidden[i] sum of what a and h, and m after
//          its window, keep at an instant <= the fast memory L[j] >= times + e of its operations L[j] >= sum
//          of m bytes / in-rate + what its operations read of the slow memory L[j] >= sum of w bytes /
//          out-rate + what they write there
//
// With windows of a few operations and whole numbers it is AutoTM's asynchronous programme (Hildebrand et
// al., ASPLOS'20, section 4; darchr/AutoTM@c6d4f2c formulation.jl as notes on it have it): a kernel takes the
// longer of its time and of the moves beside it, moves begin at most 15 operations ahead of a use, content is
// written to the slow memory once. AutoTM has vertices at every kernel; here only uses, where alone something
// changes.
//
// With shares, moves in any window of their gap, and no s, it is a bound. Take a plan of simulate() whose
// step begins as it ends. A window lasts from the end of the operation before it to that of its last one, so
// windows add up to the step. What a use finds fast has stayed since the use before, or came in since: the
// part that came in window j took its room from then on, and in that window's time, of which operations had
// their part. What left the fast memory in a gap was copied between its write and the gap's end, or was
// written to the slow memory at first. Where accesses of an operation exceed its time they are counted
// against moves only up to that. Leaving out instants and small tensors (as fast and without room) only takes
// conditions away.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/memories/residence.h"
#include "daemon/planner/simulate/bound/linear.h"

namespace terrace::planner::memories {

class GapProgramme {
 public:
  struct Options {
    std::uint32_t window_ops = 0;  // of AutoTM's programme; 0: a bound
    std::uint32_t windows = 24;    // of a bound
    std::size_t most_uses = 8000;  // of the tensors in it, the largest first
    std::size_t most_instants = 200;
    std::uint32_t most_iterations = 100'000;
  };
  // The step must outlive it.
  GapProgramme(const Step& step, const Options& options);

  void solve();
  double bound_us() const;  // of the programme: right whatever the solver did
  bool has(std::uint32_t tensor) const { return in_it_[tensor]; }
  // Of the solution, per use of the step.
  double found_fast(std::uint32_t use) const { return value(fast_[use]); }
  double stays(std::uint32_t use) const { return value(kept_[use]); }
  double waits(std::uint32_t use) const { return value(waited_[use]); }

 private:
  static constexpr std::uint32_t no_column = ~std::uint32_t{0};
  struct Window {
    std::uint32_t length = 0, computing = 0, in = 0, out = 0;  // a column, and rows
  };

  const Step& step_;
  Options options_;
  double unit_us_, unit_bytes_;
  double most_us_ = 0;  // with everything slow
  LinearProgramme programme_;
  std::vector<bool> in_it_;
  std::vector<std::uint32_t> fast_, kept_, waited_;           // columns, per use
  std::vector<double> counted_read_us_, counted_written_us_;  // per use, of the slow memory, against moves
  std::vector<Window> windows_;
  std::vector<std::uint32_t> instants_, rooms_;  // operations, rows
  std::vector<double> multipliers_, values_;

  double value(std::uint32_t column) const {
    return column == no_column || values_.empty() ? 0 : values_[column];
  }
  double size(const Tensor& t) const { return static_cast<double>(t.bytes) / unit_bytes_; }
  std::uint32_t op_of(std::uint32_t use) const { return step_.uses[use].op; }
  std::uint32_t window_of(std::uint32_t op) const {
    if (options_.window_ops > 0) return op / options_.window_ops;
    return static_cast<std::uint32_t>(std::uint64_t{op} * options_.windows / step_.ops.size());
  }
  bool is_bound() const { return options_.window_ops == 0; }
  void choose_tensors();
  void add_windows();
  void add_operations();
  void add(const Tensor& t);
  void count_accesses(std::uint32_t op, std::vector<double>* read_us, std::vector<double>* written_us);
  void add_moves(const Tensor& t, std::uint32_t use, std::uint32_t before, std::uint32_t row);
  void add_near_moves(const Tensor& t, std::uint32_t use, std::uint32_t before, std::uint32_t row);
  std::uint32_t add_copy(const Tensor& t, std::uint32_t window);
  std::uint32_t add_move(const Tensor& t, std::uint32_t window);
  void add_copies(const Tensor& t);
  void take_room(std::uint32_t column, const Tensor& t,
                 Span span);  // over the step's border if it ends early
};

}  // namespace terrace::planner::memories
