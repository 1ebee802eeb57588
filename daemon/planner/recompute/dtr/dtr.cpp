#include "daemon/planner/recompute/dtr/dtr.h"

#include <algorithm>
#include <optional>

#include "daemon/planner/recompute/dtr/eviction_pool.h"
#include "daemon/planner/recompute/dtr/heuristic.h"
#include "daemon/planner/recompute/dtr/placing.h"
#include "daemon/planner/recompute/dtr/residency.h"

namespace terrace::planner::recompute {
namespace {

class DtrRun {
 public:
  DtrRun(const Step& step, const DtrOptions& options);
  DtrReport run();

 private:
  // An operation that waits for what it reads. Recursion by a list of its own: chains of evicted storages can
  // be as long as the step.
  struct Pending {
    std::uint32_t operation = 0;
    std::uint32_t wanted = nothing;      // of its results; the first run wants the first one
    std::vector<std::uint32_t> missing;  // of what it reads, when it began to wait
    std::size_t next = 0;
  };

  bool going_on() const { return report_.outcome == DtrOutcome::finished; }
  void give_up(DtrOutcome why) { report_.outcome = why; }

  void materialize(std::uint32_t operation, std::uint32_t wanted);
  void begin(std::uint32_t operation, std::uint32_t wanted);
  void advance();
  void compute(std::uint32_t operation, std::uint32_t wanted);
  bool make_room(std::uint32_t operation);
  bool make_bytes(std::uint64_t bytes);
  bool place_results(std::uint32_t operation);
  bool place(std::uint32_t operation, std::uint32_t result, std::uint64_t bytes);
  bool evict_for(std::uint64_t bytes);
  void add_results(const Operation& op, std::uint32_t wanted);
  void note_run(std::uint32_t operation);
  void finish_operation(std::uint32_t operation);
  void release(std::uint32_t operation);
  void keep_results();

  void lock(std::uint32_t storage);
  void unlock(std::uint32_t storage);
  bool evictable(std::uint32_t storage) const;
  void evict(std::uint32_t storage);

  const Step& step_;
  DtrOptions options_;
  Residency residency_;
  std::unique_ptr<Heuristic> heuristic_;
  EvictionPool pool_;
  std::optional<Placing> placing_;
  std::vector<std::uint32_t> locks_;
  std::vector<char> ran_;
  std::vector<Pending> pending_;
  std::uint64_t live_bytes_;
  std::int64_t most_again_ns_;
  std::int64_t again_ns_ = 0;
  DtrReport report_;
};

DtrRun::DtrRun(const Step& step, const DtrOptions& options)
    : step_(step),
      options_(options),
      residency_(step),
      heuristic_(make_heuristic(options.heuristic, options.seed, residency_)),
      pool_(step.storages.size()),
      locks_(step.storages.size()),
      ran_(step.operations.size()),
      live_bytes_(step.constant_bytes),
      most_again_ns_(
          static_cast<std::int64_t>(options.most_recomputing * static_cast<double>(step.cost_ns))) {
  for (std::uint32_t s = 0; s < step.storages.size(); ++s)
    residency_.made[s] = residency_.present[s] = step.storages[s].constant() ? 1 : 0;
  report_.peak_bytes = live_bytes_;
  if (options.space != Space::bytes && live_bytes_ <= options.budget_bytes)
    placing_.emplace(step, options.budget_bytes, options.space == Space::windows);
}

bool DtrRun::evictable(std::uint32_t storage) const {
  const Storage& s = step_.storages[storage];
  return !s.constant() && step_.operations[s.maker].repeatable;
}

void DtrRun::lock(std::uint32_t storage) {
  ++locks_[storage];
  pool_.remove(storage);
}

void DtrRun::unlock(std::uint32_t storage) {
  if (--locks_[storage] == 0 && evictable(storage)) pool_.add(storage);
}

void DtrRun::evict(std::uint32_t storage) {
  pool_.remove(storage);
  residency_.present[storage] = 0;
  live_bytes_ -= step_.storages[storage].bytes;
  heuristic_->evicted(storage);
  if (placing_) placing_->evicted(storage);
  report_.schedule.push_back({Move::Kind::free, storage});
}

bool DtrRun::make_room(std::uint32_t operation) {
  const Operation& op = step_.operations[operation];
  return placing_ ? place_results(operation) : make_bytes(op.made_bytes + op.workspace_bytes);
}

// What is there and made anew stays until the operation has ended.
bool DtrRun::place_results(std::uint32_t operation) {
  const Operation& op = step_.operations[operation];
  for (const std::uint32_t s : op.makes)
    if (residency_.present[s] != 0) lock(s);
  bool placed = true;
  for (const std::uint32_t s : op.makes) placed = placed && place(operation, s, step_.storages[s].bytes);
  placed = placed && place(operation, nothing, op.workspace_bytes);
  for (const std::uint32_t s : op.makes)
    if (residency_.present[s] != 0) unlock(s);
  if (placed) placing_->end_run();
  return placed;
}

bool DtrRun::place(std::uint32_t operation, std::uint32_t result, std::uint64_t bytes) {
  const bool again = result != nothing && residency_.present[result] != 0;
  while (!placing_->take(operation, result, again)) {
    if (evict_for(bytes)) continue;
    give_up(DtrOutcome::out_of_memory);
    return false;
  }
  return true;
}

// Whether anything went.
bool DtrRun::evict_for(std::uint64_t bytes) {
  if (options_.space == Space::addresses) {
    if (pool_.empty()) return false;
    evict(pool_.choose(heuristic_.get()));
    ++report_.evictions;
    return true;
  }
  const auto cost = [this](std::uint32_t s) {
    return pool_.has(s) ? std::optional(heuristic_->value(s)) : std::nullopt;
  };
  const std::vector<std::uint32_t> row = placing_->addresses().cheapest_row(bytes, cost);
  for (const std::uint32_t s : row) evict(s);
  report_.evictions += static_cast<std::uint32_t>(row.size());
  return !row.empty();
}

bool DtrRun::make_bytes(std::uint64_t bytes) {
  while (live_bytes_ + bytes > options_.budget_bytes) {
    if (pool_.empty()) {
      give_up(DtrOutcome::out_of_memory);
      return false;
    }
    evict(pool_.choose(heuristic_.get()));
    ++report_.evictions;
  }
  return true;
}

// The one that is wanted enters the pool last.
void DtrRun::add_results(const Operation& op, std::uint32_t wanted) {
  std::vector<std::uint32_t> back;
  const auto add = [&](std::uint32_t s) {
    if (residency_.present[s] != 0) return;
    if (residency_.made[s] != 0) back.push_back(s);
    residency_.present[s] = residency_.made[s] = 1;
    live_bytes_ += step_.storages[s].bytes;
    if (evictable(s)) pool_.add(s);
  };
  for (const std::uint32_t s : op.makes)
    if (s != wanted) add(s);
  if (wanted != nothing) add(wanted);
  for (const std::uint32_t s : back) heuristic_->came_back(s);
}

void DtrRun::note_run(std::uint32_t operation) {
  const std::int64_t cost = step_.operations[operation].cost_ns;
  residency_.clock_ns += cost;
  report_.schedule.push_back({Move::Kind::compute, operation});
  if (ran_[operation] != 0) {
    again_ns_ += cost;
    ++report_.recomputations;
  }
  ran_[operation] = 1;
  if (again_ns_ > most_again_ns_ || report_.schedule.size() > options_.most_moves)
    give_up(DtrOutcome::thrashing);
}

void DtrRun::compute(std::uint32_t operation, std::uint32_t wanted) {
  const Operation& op = step_.operations[operation];
  const std::uint64_t needed = op.made_bytes + op.workspace_bytes;
  if (!make_room(operation)) return;
  report_.peak_bytes = std::max(report_.peak_bytes, live_bytes_ + needed);
  note_run(operation);
  add_results(op, wanted);
  for (const std::uint32_t s : op.reads) unlock(s);
}

// A use counts when the operation begins to wait, and what is there is locked before anything comes back.
void DtrRun::begin(std::uint32_t operation, std::uint32_t wanted) {
  Pending pending{operation, wanted, {}, 0};
  for (const std::uint32_t s : step_.operations[operation].reads) {
    residency_.last_used_ns[s] = residency_.clock_ns;
    residency_.present[s] != 0 ? lock(s) : pending.missing.push_back(s);
  }
  pending_.push_back(std::move(pending));
}

void DtrRun::advance() {
  Pending& top = pending_.back();
  if (top.next == top.missing.size()) {
    const auto [operation, wanted] = std::pair(top.operation, top.wanted);
    pending_.pop_back();
    return compute(operation, wanted);
  }
  const std::uint32_t missing = top.missing[top.next];
  if (residency_.present[missing] == 0) return begin(step_.storages[missing].maker, missing);
  lock(missing);
  ++top.next;
}

void DtrRun::materialize(std::uint32_t operation, std::uint32_t wanted) {
  begin(operation, wanted);
  while (going_on() && !pending_.empty()) advance();
}

void DtrRun::release(std::uint32_t operation) {
  for (const std::uint32_t s : step_.operations[operation].reads) {
    const Storage& storage = step_.storages[s];
    if (storage.constant() || storage.kept || storage.readers.back() != operation) continue;
    if (residency_.present[s] == 0) continue;
    evict(s);
    ++report_.releases;
  }
}

void DtrRun::finish_operation(std::uint32_t operation) {
  for (const std::uint32_t s : step_.operations[operation].makes)
    residency_.last_used_ns[s] = residency_.clock_ns;
  release(operation);
}

// simrd's output condition: what the program still refers to comes back, one after the other, and stays.
void DtrRun::keep_results() {
  for (std::uint32_t s = 0; s < step_.storages.size() && going_on(); ++s) {
    const Storage& storage = step_.storages[s];
    if (!storage.kept || storage.constant()) continue;
    if (residency_.present[s] == 0) materialize(storage.maker, s);
    if (going_on()) lock(s);
  }
}

DtrReport DtrRun::run() {
  if (live_bytes_ > options_.budget_bytes) give_up(DtrOutcome::out_of_memory);
  for (std::uint32_t i = 0; i < step_.operations.size() && going_on(); ++i) {
    const std::vector<std::uint32_t>& makes = step_.operations[i].makes;
    materialize(i, makes.empty() ? nothing : makes.front());
    if (going_on()) finish_operation(i);
  }
  keep_results();
  report_.cost_ns = residency_.clock_ns;
  if (placing_) report_.addresses = placing_->take_log();
  return std::move(report_);
}

}  // namespace

DtrReport run_dtr(const Step& step, const DtrOptions& options) { return DtrRun(step, options).run(); }

}  // namespace terrace::planner::recompute
