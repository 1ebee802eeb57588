#include "daemon/planner/simulate/store/stages.h"

#include <algorithm>
#include <optional>

namespace terrace::planner {

Stages::Stages(const Machine& machine, std::vector<TensorState>& states, Room& room, Copies& copies,
               Network& network, Recording& recording)
    : machine_(machine),
      states_(states),
      room_(room),
      copies_(copies),
      network_(network),
      recording_(recording),
      first_lane_(static_cast<std::uint32_t>(machine.routes.size()) * 2),
      waiting_(machine.far_routes.size() * 2),
      under_way_(waiting_.size()) {}

std::uint32_t Stages::source(std::uint32_t tensor) const {
  const TensorState& s = states_[tensor];
  if (s.queued_out && !s.asked_clean) return s.asked_tier;
  return s.aside ? s.aside_tier : s.tier;
}

bool Stages::ask(std::uint32_t tensor, std::uint32_t tier) {
  TensorState& s = states_[tensor];
  const std::uint32_t from = source(tensor);
  if (s.queued_aside) call_off(tensor);
  if (from == tier) return true;
  const std::optional<FarWay> way = machine_.far_way(from, tier);
  if (!way) return false;
  const std::uint64_t stored = s.queued_out && !s.asked_clean ? s.asked : s.stored;
  waiting_[lane_of(*way) - first_lane_].push_back({tensor, from, tier, stored, network_.now_us()});
  room_.ask(tier, stored);
  s.queued_aside = true;
  return true;
}

void Stages::call_off(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (!s.queued_aside) return;
  s.queued_aside = false;
  for (std::deque<Request>& lane : waiting_) {
    std::erase_if(lane, [&](const Request& r) {
      if (r.tensor != tensor) return false;
      room_.unask(r.tier, r.stored);
      return true;
    });
  }
}

void Stages::abort(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (!s.aside) return;
  const std::uint32_t lane = lane_of(*machine_.far_way(s.tier, s.aside_tier));
  record(lane, true);
  network_.abort(lane);
  room_.give(s.aside_tier, s.stored, tensor);
  s.aside = false;
}

bool Stages::can_start(const Request& r) const {
  const TensorState& s = states_[r.tensor];
  return s.place == Place::away && !s.aside && room_.fits_without_copies(r.tier, r.stored);
}

void Stages::start_ready(std::uint32_t* number) {
  for (std::uint32_t i = 0; i < waiting_.size(); ++i) {
    if (network_.busy(first_lane_ + i)) continue;
    const auto next = std::find_if(waiting_[i].begin(), waiting_[i].end(),
                                   [this](const Request& r) { return can_start(r); });
    if (next == waiting_[i].end()) continue;
    const Request request = *next;
    waiting_[i].erase(next);
    start(first_lane_ + i, request, ++*number);
  }
}

void Stages::start(std::uint32_t lane, const Request& r, std::uint32_t number) {
  TensorState& s = states_[r.tensor];
  room_.unask(r.tier, r.stored);
  copies_.give_way(r.tier, r.stored, network_.now_us());
  room_.take(r.tier, r.stored, r.tensor);
  s.queued_aside = false;
  s.aside = true;
  s.aside_tier = r.tier;
  under_way_[lane - first_lane_] = {r, number, network_.now_us()};
  network_.start(lane, r.stored);
}

void Stages::finish(std::uint32_t lane) {
  record(lane, false);
  const std::uint32_t tensor = under_way_[lane - first_lane_].request.tensor;
  TensorState& s = states_[tensor];
  room_.give(s.tier, s.stored, tensor);
  s.tier = s.aside_tier;
  s.aside = false;
}

void Stages::record(std::uint32_t lane, bool aborted) {
  const UnderWay& u = under_way_[lane - first_lane_];
  const Request& r = u.request;
  Transfer t{r.tensor,    r.tier,     Network::is_in(lane), false, aborted, r.stored,
             r.queued_us, u.start_us, network_.now_us()};
  t.from = r.from;
  recording_.transfer(t, u.number);
}

}  // namespace terrace::planner
