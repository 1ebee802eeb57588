#include "daemon/planner/simulate/joint/moves.h"

#include <algorithm>
#include <cmath>

namespace terrace::planner::joint {
namespace {

constexpr double blind_share = 0.15;   // of the changes
constexpr double further_back = 0.75;  // chance of each step back along a busy link
constexpr int tries_to_cover = 48;     // gaps that are drawn to find some that lie over a position
constexpr double pause_us = 1e-3;      // between two transfers: the link was idle

}  // namespace

void Moves::look(const SimulationReport& report) {
  report_ = &report;
  aims_.clear();
  lost_us_ = 0;
  for (std::uint32_t op = 0; op < report.ops.size(); ++op) aim(report.ops[op], op);
  for (const ExtraWork& work : report.extra) {
    aim(work.timing, work.position);
    const bool idle = work.kind == ExtraWork::Kind::drop || work.kind == ExtraWork::Kind::wait;
    if (idle || work.tensors.empty()) continue;
    add({Aim::At::work, work.position, work.tensors.front()}, work.timing.end_us - work.timing.start_us);
  }
  in_.assign(drafts_.machine().tiers.size(), {});
  for (const Transfer& t : report.transfers)
    if (t.in && t.from == 0 && !t.aborted) in_[t.tier].push_back(&t);
}

void Moves::aim(const OpTiming& timing, std::uint32_t position) {
  const Stalls& s = timing.stalls;
  add({Aim::At::arrival, position, 0, timing.ready_us, timing.present_us}, s.late_prefetch_us + s.fetch_us);
  add({Aim::At::room, position, 0, timing.ready_us, timing.present_us}, s.room_us);
}

void Moves::add(Aim aim, double lost_us) {
  if (lost_us <= 0) return;
  aim.sum_us = lost_us_ += lost_us;
  aims_.push_back(aim);
}

std::uint32_t Moves::position_of(double time_us) const {
  const auto after = std::upper_bound(report_->ops.begin(), report_->ops.end(), time_us,
                                      [](double time, const OpTiming& op) { return time < op.ready_us; });
  return static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - report_->ops.begin() - 1, 0));
}

void Moves::change(std::uint32_t count, Choices* choices) {
  if (choices->empty()) return;
  while (count-- > 0) change_one(choices);
}

void Moves::change_one(Choices* choices) {
  if (aims_.empty() || fraction() < blind_share) {
    anywhere(choices);
    return;
  }
  const double drawn_us = fraction() * lost_us_;
  const auto found = std::upper_bound(aims_.begin(), aims_.end(), drawn_us,
                                      [](double us, const Aim& a) { return us < a.sum_us; });
  const Aim& aim = found == aims_.end() ? aims_.back() : *found;
  if (aim.at == Aim::At::arrival) relieve_link(aim, choices);
  if (aim.at == Aim::At::room) relieve_memory(aim, choices);
  if (aim.at == Aim::At::work) relieve_work(aim, choices);
}

const Transfer* Moves::last_arrival(const Aim& aim) const {
  const Transfer* last = nullptr;
  for (const auto& of_tier : in_) {
    auto after = std::upper_bound(of_tier.begin(), of_tier.end(), aim.until_us + pause_us,
                                  [](double us, const Transfer* t) { return us < t->end_us; });
    if (after == of_tier.begin()) continue;
    const Transfer* t = *--after;
    if (t->end_us >= aim.from_us && (last == nullptr || t->end_us > last->end_us)) last = t;
  }
  return last;
}

const Transfer* Moves::back_along(const Transfer* last) {
  const auto& of_tier = in_[last->tier];
  auto at = std::lower_bound(of_tier.begin(), of_tier.end(), last->end_us,
                             [](const Transfer* t, double us) { return t->end_us < us; });
  while (at != of_tier.begin() && fraction() < further_back) {
    if ((*at)->start_us > (*(at - 1))->end_us + pause_us) break;
    --at;
  }
  return *at;
}

void Moves::relieve_link(const Aim& aim, Choices* choices) {
  const Transfer* last = last_arrival(aim);
  if (last == nullptr) return anywhere(choices);
  const Transfer* t = back_along(last);
  const std::uint32_t position = position_of(t->start_us);
  const std::optional<std::size_t> gap = drafts_.gap_at(t->tensor, position);
  if (!gap || (*choices)[*gap].way != Way::moves) return anywhere(choices);
  Choice& c = (*choices)[*gap];
  if (recode(&c, 2)) return;
  if (below(2) == 0) return turn(choices, *gap);
  // Earlier, by up to twice what was waited for.
  const double start_us = t->start_us - 2 * fraction() * (aim.until_us - aim.from_us);
  const std::uint32_t earliest = c.gap.wraps ? 0 : std::min(c.out, c.gap.to);
  if (c.through != 0 && below(2) == 0) {
    c.back = std::max(earliest, std::min(c.back, position_of(std::max(start_us, 0.0))));
    return;
  }
  c.in = std::clamp(position_of(std::max(start_us, 0.0)), earliest,
                    std::max(earliest, std::min(c.in, position)));
}

// The largest of some that lie over the position; any, if none of those drawn does.
std::size_t Moves::covering(const Choices& choices, std::uint32_t position) {
  std::size_t best = below(choices.size());
  std::uint64_t most = 0;
  int found = 0;
  for (int i = 0; i < tries_to_cover && found < 3; ++i) {
    const std::size_t gap = below(choices.size());
    const Gap& g = choices[gap].gap;
    const bool over = g.wraps ? position > g.from || position < g.to : g.from < position && position < g.to;
    if (!over) continue;
    ++found;
    if (const std::uint64_t bytes = drafts_.bytes(choices[gap]); bytes > most) {
      most = bytes;
      best = gap;
    }
  }
  return best;
}

// One time in `one_in` what moves gets the codec that it may have, if it has none.
bool Moves::recode(Choice* c, std::uint64_t one_in) {
  if (c->way != Way::moves || c->codec != 0) return false;
  const std::uint32_t codec = drafts_.codec_for(*c, c->tier);
  if (codec == 0 || below(one_in) != 0) return false;
  c->codec = codec;
  return true;
}

void Moves::relieve_memory(const Aim& aim, Choices* choices) {
  const std::size_t gap = covering(*choices, aim.position);
  Choice& c = (*choices)[gap];
  if (c.way == Way::stays) return leave(choices, gap);
  if (recode(&c, 4)) return;
  const bool back_before = c.in <= aim.position && aim.position < c.gap.to && !c.gap.wraps;
  if (back_before && below(4) != 0) {  // later
    c.in = aim.position + 1 + static_cast<std::uint32_t>(below(c.gap.to - aim.position));
    return;
  }
  turn(choices, gap);
}

void Moves::relieve_work(const Aim& aim, Choices* choices) {
  const std::optional<std::size_t> gap = drafts_.gap_at(aim.tensor, aim.position);
  const Way way = gap ? (*choices)[*gap].way : Way::stays;
  if (way == Way::moves && (*choices)[*gap].codec != 0 && below(2) == 0) {
    Choice& coded = (*choices)[*gap];
    coded.codec = 0;
    if (coded.tier == drafts_.inside()) coded.way = Way::stays;
    return;
  }
  if (way != Way::made_again) return anywhere(choices);
  Choice& c = (*choices)[*gap];
  if (c.in != aim.position && below(2) == 0) {  // made on the way to something else: it stays from there on
    drafts_.make_again(&c, aim.position);
    return;
  }
  turn(choices, *gap);
}

void Moves::anywhere(Choices* choices) {
  const std::size_t gap = below(choices->size());
  Choice& c = (*choices)[gap];
  if (c.way == Way::stays) {
    // Another one may stay instead.
    leave(choices, gap);
    const std::size_t other = covering(*choices, std::min(c.gap.from + 1, c.gap.to));
    if (other != gap) (*choices)[other].way = Way::stays;
    return;
  }
  turn(choices, gap);
}

// What does not stay becomes something else.
void Moves::turn(Choices* choices, std::size_t gap) {
  Choice& c = (*choices)[gap];
  const std::uint64_t drawn = below(4);
  if (drawn == 0) {
    c.way = Way::stays;
    return;
  }
  if (drawn == 1 && !c.gap.wraps && c.gap.to > c.gap.from + 2) {
    const std::uint32_t earliest = c.way == Way::moves ? c.out : c.gap.from + 2;
    c.in = std::clamp(earliest + static_cast<std::uint32_t>(below(c.gap.to - c.gap.from)),
                      std::min(earliest, c.gap.to), c.gap.to);
    return;
  }
  leave(choices, gap);
}

// Half of what could goes through a nearer tier.
void Moves::stage(Choice* c) {
  std::vector<std::uint32_t> nearer;
  for (const FarRoute& route : drafts_.far_routes())
    if (route.tier == c->tier) nearer.push_back(route.from);
  if (nearer.empty() || below(2) == 0) return;
  drafts_.stage(c, nearer[below(nearer.size())]);
}

// Leaves tier 0, or what it takes of it, one way or the other.
void Moves::leave(Choices* choices, std::size_t gap) {
  Choice& c = (*choices)[gap];
  const bool movable = drafts_.far().any();
  const bool again = drafts_.can_be_made_again(gap);
  if (drafts_.codec_inside(c) != 0 && below(2) == 0) return drafts_.encode(&c);
  if (again && (!movable || (c.way == Way::moves ? below(4) != 0 : below(2) == 0))) {
    drafts_.make_again(&c, c.gap.to);
  } else if (movable) {
    const auto& tiers = drafts_.far().tiers();
    const std::uint32_t tier = tiers[below(2) == 0 ? 0 : below(tiers.size())];
    const std::uint32_t codec = drafts_.codec_for(c, tier);
    drafts_.move(&c, tier, codec != 0 && below(2) == 0 ? codec : 0);
    stage(&c);
  }
}

}  // namespace terrace::planner::joint
