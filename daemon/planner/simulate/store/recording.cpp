#include "daemon/planner/simulate/store/recording.h"

#include <algorithm>
#include <utility>

namespace terrace::planner {

void Recording::begin(double now_us, bool timeline) {
  base_us_ = now_us;
  on_ = timeline;
  runs_ended_ = 0;
  changes_ = 0;
  if (timeline) open_.assign(tensors_ * 2, none);
}

void Recording::sample(double now_us, const std::vector<std::uint64_t>& tier_bytes) {
  const double time_us = now_us - base_us_;
  if (!on_ || (!samples_.empty() && samples_.back().tier_bytes == tier_bytes)) return;
  if (!samples_.empty() && samples_.back().time_us == time_us) {
    samples_.back().tier_bytes = tier_bytes;
  } else {
    samples_.push_back({time_us, tier_bytes});
  }
}

void Recording::transfer(Transfer transfer, std::uint32_t number) {
  if (!on_ || (transfer.aborted && transfer.end_us == transfer.start_us)) return;  // nothing moved
  for (double* t : {&transfer.queued_us, &transfer.start_us, &transfer.end_us}) *t -= base_us_;
  transfers_.push_back({number, transfer});
}

void Recording::copy(CopyUse::Kind kind, std::uint32_t tensor, double now_us) {
  if (on_) copies_.push_back({kind, tensor, now_us - base_us_, runs_ended_});
}

void Recording::lay(std::uint32_t tensor, bool coded, std::uint64_t bytes) {
  if (on_ && bytes > 0) open(tensor, coded, bytes);
}

void Recording::comes(std::uint32_t tensor, bool coded, std::uint64_t bytes) {
  if (!on_ || bytes == 0) return;
  ++changes_;
  open(tensor, coded, bytes);
}

void Recording::open(std::uint32_t tensor, bool coded, std::uint64_t bytes) {
  if (tensor == Stay::of_a_run) {
    open_of_run_.push_back(stays_.size());
  } else {
    open_[tensor + (coded ? tensors_ : 0)] = stays_.size();
  }
  stays_.push_back({tensor, coded, bytes, changes_, Stay::to_the_end, since_begin_us(), 0});
}

void Recording::goes(std::uint32_t tensor, bool coded) {
  if (!on_) return;
  if (tensor == Stay::of_a_run) {
    if (!open_of_run_.empty()) ++changes_;
    for (const std::size_t stay : open_of_run_) close(stay);
    open_of_run_.clear();
    return;
  }
  std::size_t& stay = open_[tensor + (coded ? tensors_ : 0)];
  if (stay == none) return;  // of no bytes
  ++changes_;
  close(stay);
  stay = none;
}

void Recording::close(std::size_t stay) {
  stays_[stay].until = changes_;
  stays_[stay].until_us = since_begin_us();
}

void Recording::end(SimulationReport* report) {
  std::sort(transfers_.begin(), transfers_.end(),
            [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  report->transfers.reserve(transfers_.size());
  for (const Numbered& n : transfers_) report->transfers.push_back(n.transfer);
  report->memory = std::move(samples_);
  report->start = std::move(start_);
  report->stays = std::move(stays_);
  report->copies = std::move(copies_);
}

}  // namespace terrace::planner
