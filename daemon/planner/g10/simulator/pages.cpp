// The runs and their lists; see pages.h.
#include "daemon/planner/g10/simulator/pages.h"

#include <cmath>

namespace terrace::planner::g10 {

PageStore::PageStore(const Workload& workload, const G10Machine& machine)
    : tensors_(workload.tensors.size()),
      gpu_pages_(machine.gpu_bytes / machine.page_bytes),
      host_pages_(machine.host_bytes / machine.page_bytes) {
  for (std::uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    if (workload.tensors[tensor].pages == 0) continue;
    const std::uint32_t id = new_run();
    runs_[id].tensor = tensor;
    runs_[id].pages = workload.tensors[tensor].pages;
    runs_[id].place = workload.tensors[tensor].global ? Place::ssd : Place::absent;
    tensors_[tensor].first = id;
  }
}

std::uint32_t PageStore::front(Wait wait) const {
  const auto& queue = queues_[static_cast<std::size_t>(wait)];
  return queue.empty() ? no_run : queue.front();
}

bool PageStore::idle() const {
  for (const auto& queue : queues_) {
    if (!queue.empty()) return false;
  }
  return true;
}

void PageStore::set_needed(const std::vector<std::uint32_t>& tensors) {
  for (const std::uint32_t tensor : needed_) tensors_[tensor].needed = false;
  needed_ = tensors;
  awaited_ = 0;
  for (const std::uint32_t tensor : needed_) {
    tensors_[tensor].needed = true;
    awaited_ += tensors_[tensor].in_transfer;
  }
}

std::uint32_t PageStore::new_run() {
  if (!spare_.empty()) {
    const std::uint32_t id = spare_.back();
    spare_.pop_back();
    runs_[id] = Run{};
    return id;
  }
  runs_.emplace_back();
  return static_cast<std::uint32_t>(runs_.size() - 1);
}

void PageStore::count(const Run& from, std::uint32_t pages, Place place, Wait wait) {
  if (from.place == Place::gpu) gpu_used_ -= pages;
  if (from.place == Place::host) host_used_ -= pages;
  if (place == Place::gpu) gpu_used_ += pages;
  if (place == Place::host) host_used_ += pages;
  TensorPages& tensor = tensors_[from.tensor];
  if (from.wait != Wait::none) tensor.in_transfer -= pages;
  if (wait != Wait::none) tensor.in_transfer += pages;
  if (!tensor.needed) return;
  if (from.wait != Wait::none) awaited_ -= pages;
  if (wait != Wait::none) awaited_ += pages;
}

// In a list that has an order, only the last run may grow.
bool PageStore::joins(const Run& candidate, std::uint32_t id, Place place, Wait wait) const {
  if (candidate.place != place || candidate.wait != wait) return false;
  if (wait != Wait::none) return queues_[static_cast<std::size_t>(wait)].back() == id;
  return place != Place::gpu || newest_ == id;
}

void PageStore::detach(std::uint32_t id) {
  Run& run = runs_[id];
  if (run.wait != Wait::none) {
    queue_of(run.wait).pop_front();  // queued runs leave from the front alone
  } else if (run.place == Place::gpu) {
    (run.older == no_run ? oldest_ : runs_[run.older].newer) = run.newer;
    (run.newer == no_run ? newest_ : runs_[run.newer].older) = run.older;
    run.older = run.newer = no_run;
  }
}

void PageStore::attach(std::uint32_t id, Place place, Wait wait) {
  Run& run = runs_[id];
  run.place = place;
  run.wait = wait;
  if (wait != Wait::none) {
    queue_of(wait).push_back(id);
  } else if (place == Place::gpu) {
    run.older = newest_;
    (newest_ == no_run ? oldest_ : runs_[newest_].newer) = id;
    newest_ = id;
  }
}

void PageStore::unlink(std::uint32_t id) {
  const Run& run = runs_[id];
  (run.before == no_run ? tensors_[run.tensor].first : runs_[run.before].after) = run.after;
  if (run.after != no_run) runs_[run.after].before = run.before;
  spare_.push_back(id);
}

std::uint32_t PageStore::split_front(std::uint32_t id, std::uint32_t pages) {
  const std::uint32_t part = new_run();
  Run& rest = runs_[id];
  Run& head = runs_[part];
  head.tensor = rest.tensor;
  head.pages = pages;
  head.before = rest.before;
  head.after = id;
  (rest.before == no_run ? tensors_[rest.tensor].first : runs_[rest.before].after) = part;
  rest.before = part;
  rest.pages -= pages;
  return part;
}

// Runs at rest outside the GPU are in no list, so neighbours in the same state become one.
void PageStore::absorb_next(std::uint32_t id) {
  Run& run = runs_[id];
  if (run.wait != Wait::none || run.place == Place::gpu || run.after == no_run) return;
  const std::uint32_t next = run.after;
  if (runs_[next].place != run.place || runs_[next].wait != Wait::none) return;
  run.pages += runs_[next].pages;
  unlink(next);
}

std::uint32_t PageStore::move(std::uint32_t id, std::uint32_t pages, Place place, Wait wait) {
  count(runs_[id], pages, place, wait);
  const std::uint32_t before = runs_[id].before;
  const bool whole = runs_[id].pages == pages;
  if (before != no_run && joins(runs_[before], before, place, wait)) {
    runs_[before].pages += pages;
    runs_[id].pages -= pages;
    if (!whole) return before;
    detach(id);
    unlink(id);
    absorb_next(before);
    return before;
  }
  if (whole) {
    detach(id);
  } else {
    id = split_front(id, pages);
  }
  attach(id, place, wait);
  if (whole) absorb_next(id);
  return id;
}

}  // namespace terrace::planner::g10
