#include "daemon/planner/recompute/dtr/coop.h"

#include <map>

namespace terrace::planner::recompute {
namespace {

// Blocks in use, by their begins.
class Occupied {
 public:
  explicit Occupied(std::uint64_t bytes) : bytes_(bytes) {}

  bool add(std::uint64_t begin, std::uint64_t bytes) {
    if (bytes > bytes_ || begin > bytes_ - bytes) return false;
    const auto after = used_.lower_bound(begin);
    if (after != used_.end() && after->first < begin + bytes) return false;
    if (after != used_.begin() && std::prev(after)->first + std::prev(after)->second > begin) return false;
    used_[begin] = bytes;
    return true;
  }
  void remove(std::uint64_t begin) { used_.erase(begin); }

 private:
  std::uint64_t bytes_;
  std::map<std::uint64_t, std::uint64_t> used_;
};

class AddressCheck {
 public:
  AddressCheck(const Step& step, const DtrReport& report, std::uint64_t budget_bytes)
      : step_(step),
        report_(report),
        used_(budget_bytes - step.constant_bytes),
        at_(step.storages.size(), absent) {}

  std::string check() {
    for (const Move& move : report_.schedule) {
      if (move.kind == Move::Kind::free) {
        if (step_.storages[move.index].bytes > 0) used_.remove(at_[move.index]);
        at_[move.index] = absent;
      } else if (!compute(move.index)) {
        return "operation " + std::to_string(move.index) + " has a block that is taken, or beyond the budget";
      }
    }
    return next_ == report_.addresses.size() ? "" : "there are more blocks than results";
  }

 private:
  static constexpr std::uint64_t absent = ~std::uint64_t{0};

  bool compute(std::uint32_t operation) {
    const Operation& op = step_.operations[operation];
    std::vector<std::uint64_t> passing;
    for (const std::uint32_t s : op.makes) {
      const std::uint64_t bytes = step_.storages[s].bytes;
      if (bytes == 0) continue;
      if (!block(bytes)) return false;
      if (at_[s] != absent) passing.push_back(last_);
      if (at_[s] == absent) at_[s] = last_;
    }
    if (op.workspace_bytes > 0) {
      if (!block(op.workspace_bytes)) return false;
      passing.push_back(last_);
    }
    for (const std::uint64_t begin : passing) used_.remove(begin);
    return true;
  }

  bool block(std::uint64_t bytes) {
    if (next_ == report_.addresses.size()) return false;
    last_ = report_.addresses[next_++];
    return used_.add(last_, bytes);
  }

  const Step& step_;
  const DtrReport& report_;
  Occupied used_;
  std::vector<std::uint64_t> at_;  // per storage that is there
  std::size_t next_ = 0;           // of the report's blocks
  std::uint64_t last_ = 0;
};

}  // namespace

DtrReport run_coop(const Step& step, std::uint64_t budget_bytes) {
  return run_dtr(step,
                 {.heuristic = HeuristicKind::coop, .budget_bytes = budget_bytes, .space = Space::windows});
}

std::string check_addresses(const Step& step, const DtrReport& report, std::uint64_t budget_bytes) {
  return AddressCheck(step, report, budget_bytes).check();
}

}  // namespace terrace::planner::recompute
