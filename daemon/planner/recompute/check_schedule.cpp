#include <algorithm>

#include "daemon/planner/recompute/schedule.h"

namespace terrace::planner::recompute {
namespace {

std::string numbered(const char* what, std::uint32_t index, const char* how) {
  return std::string(what) + " " + std::to_string(index) + " " + how;
}

class Replay {
 public:
  Replay(const Step& step, std::uint64_t budget_bytes)
      : step_(step),
        budget_bytes_(budget_bytes),
        present_(step.storages.size()),
        runs_(step.operations.size()),
        live_bytes_(step.constant_bytes) {
    for (std::uint32_t s = 0; s < present_.size(); ++s) present_[s] = step.storages[s].constant();
    price_.peak_bytes = live_bytes_;
  }

  std::string compute(std::uint32_t operation);
  std::string free(std::uint32_t storage);
  std::string end() const;
  Price take() { return std::move(price_); }

 private:
  const Step& step_;
  std::uint64_t budget_bytes_;
  std::vector<bool> present_;
  std::vector<std::uint32_t> runs_;
  std::uint64_t live_bytes_;
  Price price_;
};

std::string Replay::compute(std::uint32_t operation) {
  if (operation >= runs_.size()) return numbered("operation", operation, "does not exist");
  const Operation& op = step_.operations[operation];
  for (const std::uint32_t s : op.reads)
    if (!present_[s]) return numbered("operation", operation, "reads what is not there");
  if (runs_[operation] > 0 && !op.repeatable) return numbered("operation", operation, "cannot be repeated");
  const std::uint64_t needed = live_bytes_ + op.made_bytes + op.workspace_bytes;
  if (needed > budget_bytes_) return numbered("operation", operation, "does not fit into the budget");
  price_.peak_bytes = std::max(price_.peak_bytes, needed);
  price_.cost_ns += op.cost_ns;
  if (runs_[operation]++ > 0) ++price_.recomputations;
  for (const std::uint32_t s : op.makes) {
    if (!present_[s]) live_bytes_ += step_.storages[s].bytes;
    present_[s] = true;
  }
  return {};
}

std::string Replay::free(std::uint32_t storage) {
  if (storage >= present_.size()) return numbered("storage", storage, "does not exist");
  if (step_.storages[storage].constant()) return numbered("storage", storage, "is a constant");
  if (!present_[storage]) return numbered("storage", storage, "is freed but not there");
  present_[storage] = false;
  live_bytes_ -= step_.storages[storage].bytes;
  return {};
}

std::string Replay::end() const {
  if (step_.constant_bytes > budget_bytes_) return "the constants do not fit into the budget";
  for (std::uint32_t i = 0; i < runs_.size(); ++i)
    if (runs_[i] == 0) return numbered("operation", i, "has not run");
  for (std::uint32_t s = 0; s < present_.size(); ++s)
    if (step_.storages[s].kept && !present_[s]) return numbered("storage", s, "is not there at the end");
  return {};
}

Price refused_price(std::string wrong) {
  Price price;
  price.wrong = std::move(wrong);
  return price;
}

}  // namespace

Price check_schedule(const Step& step, const Schedule& schedule, std::uint64_t budget_bytes) {
  Replay replay(step, budget_bytes);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const Move& move = schedule[i];
    const std::string wrong =
        move.kind == Move::Kind::compute ? replay.compute(move.index) : replay.free(move.index);
    if (!wrong.empty()) return refused_price("move " + std::to_string(i) + ": " + wrong);
  }
  if (std::string wrong = replay.end(); !wrong.empty()) return refused_price(std::move(wrong));
  return replay.take();
}

}  // namespace terrace::planner::recompute
