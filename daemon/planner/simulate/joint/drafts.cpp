#include "daemon/planner/simulate/joint/drafts.h"

#include <algorithm>
#include <cmath>

#include "daemon/planner/simulate/gaps/dropping.h"
#include "daemon/planner/simulate/gaps/eviction_walk.h"
#include "daemon/planner/simulate/gaps/remaking.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner::joint {

using wire::Action;
using wire::ScheduleEntry;

namespace {

constexpr int most_revisions = 3;

// The part of a gap in which nothing of the tensor lies in tier 0.
Gap absence(const Choice& c) { return {c.gap.tensor, c.gap.from, c.in, false}; }

template <class Change>
void for_away(const Choice& c, std::uint32_t ops, Change change) {
  if (!c.gap.wraps) {
    change(c.gap.from + 1, c.gap.to);
    return;
  }
  change(c.gap.from + 1, ops);
  change(0U, c.gap.to);
}

}  // namespace

Drafts::Drafts(const wire::Trace& trace, const Machine& machine)
    : trace_(trace),
      machine_(machine),
      far_(trace, machine),
      codecs_(trace, machine),
      bits_(trace, machine),
      starts_us_(ideal_starts_us(trace)),
      resident_(trace),
      gaps_(gaps_of(trace)),
      first_gap_(trace.tensors.size() + 1, 0),
      inside_(machine.tier_inside()),
      lineage_(trace) {
  for (const Gap& gap : gaps_) ++first_gap_[gap.tensor + 1];
  for (std::size_t t = 1; t < first_gap_.size(); ++t) first_gap_[t] += first_gap_[t - 1];
  again_.reserve(gaps_.size());
  for (const Gap& gap : gaps_) again_.push_back(lineage_.price_us(gap).has_value());
}

Choices Drafts::all_stay() const {
  Choices choices;
  choices.reserve(gaps_.size());
  for (const Gap& gap : gaps_) choices.push_back({gap, Way::stays, 0, gap.from + 1, gap.to});
  return choices;
}

std::optional<std::size_t> Drafts::gap_at(std::uint32_t tensor, std::uint32_t position) const {
  for (std::size_t g = first_gap_[tensor]; g < first_gap_[tensor + 1]; ++g) {
    const Gap& gap = gaps_[g];
    const bool after = position > gap.from, before = position <= gap.to;
    if (gap.wraps ? after || before : after && before) return g;
  }
  return std::nullopt;
}

std::uint32_t Drafts::position_at(double time_us) const {
  const auto after = std::upper_bound(starts_us_.begin(), starts_us_.end(), time_us);
  return static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - starts_us_.begin() - 1, 0));
}

void Drafts::move(Choice* c, std::uint32_t tier, std::uint32_t codec) const {
  c->way = Way::moves;
  c->tier = tier;
  c->codec = codec;
  c->through = 0;
  c->out = c->gap.from + 1;
  c->in = c->gap.to;
  if (is_encoded(*c)) return;
  const double back_us = starts_us_[c->gap.to] - codecs_.transfer_us(c->gap.tensor, tier, codec, true);
  c->in = std::clamp(position_at(back_us), c->gap.wraps ? 0 : std::min(c->out, c->gap.to), c->gap.to);
}

void Drafts::stage(Choice* c, std::uint32_t through) const {
  c->through = through;
  const double back_us = starts_us_[c->in] - far_.stage_us(c->tier, through, bytes(*c));
  c->back = std::clamp(position_at(back_us), c->gap.wraps ? 0 : std::min(c->out, c->in), c->in);
}

void Drafts::make_again(Choice* c, std::uint32_t in) const {
  c->way = Way::made_again;
  c->in = std::clamp(in, std::min(c->gap.from + 2, c->gap.to), c->gap.to);
}

Choices Drafts::read(const wire::Schedule& schedule, const SimulationReport& report) const {
  Choices choices = all_stay();
  const auto choice_at = [&](std::uint32_t tensor, std::uint32_t position) {
    const std::optional<std::size_t> gap = gap_at(tensor, position);
    return gap ? &choices[*gap] : nullptr;
  };
  for (const ScheduleEntry& e : schedule.entries) {
    Choice* c = choice_at(e.object, e.at);
    if (c == nullptr) continue;
    if (e.action == Action::out && (e.tier != inside_ || codec_inside(*c) != 0)) {
      const bool bits = machine_.keeps_one_bit(e.codec);
      if (bits && bits_.codec(c->gap) == 0) continue;
      const std::uint32_t codec = bits || codec_for(*c, e.tier) != 0 ? e.codec : 0;
      if (e.tier == inside_ && codec == 0) continue;
      *c = {c->gap, Way::moves, e.tier, e.at, c->gap.to, codec};
    }
    if (e.action == Action::in && c->way == Way::moves) c->in = c->back = e.at;
    if (e.action == Action::stage && c->way == Way::moves) read_stage(e, c);
    if (e.action == Action::drop) make_again(c, c->gap.to);
    if (e.action == Action::redo && c->way == Way::made_again) c->in = e.at;
  }
  for (const Transfer& t : report.transfers) {
    if (!t.on_demand || t.in || t.queued_us < 0) continue;
    const auto after = std::upper_bound(report.ops.begin(), report.ops.end(), t.queued_us,
                                        [](double time, const OpTiming& op) { return time < op.ready_us; });
    const auto position =
        static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - report.ops.begin() - 1, 0));
    Choice* c = choice_at(t.tensor, position);
    if (c != nullptr && c->way == Way::stays) *c = {c->gap, Way::moves, t.tier, position, c->gap.to};
  }
  return choices;
}

// Of a plan made here: on at once, and back to where it went on from.
void Drafts::read_stage(const ScheduleEntry& e, Choice* c) const {
  if (c->through == 0 && machine_.far_way(c->tier, e.tier)) {
    c->through = c->tier;
    c->tier = e.tier;
  } else if (e.tier == c->through) {
    c->back = e.at;
  }
}

Choices Drafts::construct(double most_us_per_byte, bool encoding) const {
  Choices choices = all_stay();
  Residency residency(trace_);
  lineage_.keep_all();
  remake_cheap(most_us_per_byte, &choices, &residency);
  if (encoding) encode_cheap(&choices, &residency);
  add_moves(&choices, &residency);
  return choices;
}

std::optional<Choices> Drafts::revised(Choices choices, double most_us_per_byte) const {
  bool any = false;
  choices = complete(std::move(choices));
  for (int i = 0; i < most_revisions && keep_dear(most_us_per_byte, &choices); ++i) {
    choices = complete(std::move(choices));
    any = true;
  }
  if (!any) return std::nullopt;
  return choices;
}

// Not to be made again after all: what rests on so much that moves that bringing it back early costs more.
bool Drafts::keep_dear(double most_us_per_byte, Choices* choices) const {
  bool any = false;
  for (Choice& c : *choices) {
    if (c.way != Way::made_again) continue;
    const std::optional<double> price_us = lineage_.price_us(absence(c));
    if (price_us && *price_us <= most_us_per_byte * static_cast<double>(bytes(c))) continue;
    c.way = Way::stays;
    any = true;
  }
  return any;
}

Choices Drafts::complete(Choices choices) const {
  Residency residency(trace_);
  lineage_.keep_all();
  for (Choice& c : choices) {
    if (c.way == Way::moves) c.way = Way::stays;
    if (c.way != Way::made_again) continue;
    lineage_.drop(absence(c));
    residency.remove(c.gap.from + 1, c.in, bytes(c));
  }
  add_moves(&choices, &residency);
  return choices;
}

void Drafts::add_moves(Choices* choices, Residency* residency) const {
  move_the_rest(choices, residency);
  keep_on_the_way(choices, residency);
  fetch_early(choices, residency);
}

// By bytes per second; a price grows with what was dropped before.
void Drafts::remake_cheap(double most_us_per_byte, Choices* choices, Residency* residency) const {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t g = 0; g < gaps_.size(); ++g) {
    if (!again_[g]) continue;
    const double us_per_byte = *lineage_.price_us(gaps_[g]) / static_cast<double>(bytes((*choices)[g]));
    if (us_per_byte <= most_us_per_byte) order.emplace_back(us_per_byte, g);
  }
  std::sort(order.begin(), order.end());
  Dropping dropping(lineage_, trace_.tensors.size());
  for (const auto& [us_per_byte, g] : order) {
    Choice& c = (*choices)[g];
    const auto size = static_cast<double>(bytes(c));
    if (!residency->exceeds(c.gap.from + 1, c.gap.to, limit())) continue;
    if (!dropping.drop(c.gap, most_us_per_byte * size)) continue;
    make_again(&c, c.gap.to);
    residency->remove(c.gap.from + 1, c.gap.to, bytes(c));
  }
}

std::uint64_t Drafts::encoded_bytes(const Choice& c) const {
  return stored_bytes(trace_.tensors[c.gap.tensor], machine_.codecs[c.codec - 1]);
}

// By the codec's time for a byte that it saves. What is made again of values leaves none of them as bits.
void Drafts::encode_cheap(Choices* choices, Residency* residency) const {
  std::vector<std::pair<double, std::size_t>> order;
  const std::vector<bool> wanted = read_again(*choices);
  for (std::size_t g = 0; g < gaps_.size(); ++g) {
    Choice c = (*choices)[g];
    if (c.way != Way::stays || c.gap.wraps || codec_inside(c) == 0) continue;
    encode(&c);
    if (is_as_bits(c) && wanted[c.gap.tensor]) continue;
    const CodecCost& codec = machine_.codecs[c.codec - 1];
    const auto size = static_cast<double>(bytes(c));
    const double back = codec.one_bit ? 0 : size / codec.decompress_bytes_per_second;
    const double work = size / codec.compress_bytes_per_second + back;
    order.emplace_back(work / (size - static_cast<double>(encoded_bytes(c))), g);
  }
  std::sort(order.begin(), order.end());
  std::vector<bool> as_bits(trace_.tensors.size(), false);
  for (const auto& [work_per_byte, g] : order) {
    Choice& c = (*choices)[g];
    Choice encoded = c;
    encode(&encoded);
    if (!residency->exceeds(c.gap.from + 1, encoded_until(encoded), limit())) continue;
    if (is_as_bits(encoded) && as_bits[c.gap.tensor]) continue;  // since an earlier gap
    c = encoded;
    if (is_as_bits(c))
      as_bits[c.gap.tensor] = true;
    else
      lineage_.move(c.gap, 0);
    residency->remove(c.gap.from + 1, encoded_until(c), bytes(c) - encoded_bytes(c));
  }
}

std::vector<bool> Drafts::settled_by_bits(const Choices& choices) const {
  std::vector<bool> settled(choices.size(), false);
  for (std::size_t g = 1; g < choices.size() && bits_.any(); ++g) {
    const bool same = choices[g].gap.tensor == choices[g - 1].gap.tensor;
    settled[g] = same && (settled[g - 1] || is_as_bits(choices[g - 1]));
  }
  return settled;
}

// By tensor: whether what is made again reads it.
std::vector<bool> Drafts::read_again(const Choices& choices) const {
  std::vector<bool> read(trace_.tensors.size(), false);
  for (const Choice& c : choices) {
    if (!bits_.any() || c.way != Way::made_again) continue;
    for (const std::uint32_t t : lineage_.rests_on(absence(c))) read[t] = true;
  }
  return read;
}

// What all encoded forms together take at most.
std::uint64_t Drafts::encoded_peak_bytes(const Choices& choices) const {
  LoadTree load;
  load.reset(std::vector<std::uint64_t>(trace_.ops.size(), 0));
  for (const Choice& c : choices)
    if (is_encoded(c)) load.add(c.gap.from + 1, encoded_until(c), encoded_bytes(c));
  return load.peak_bytes();
}

void Drafts::move_the_rest(Choices* choices, Residency* residency) const {
  if (!far_.any() || residency->most() <= limit()) return;
  std::vector<Gap> gone;
  const std::vector<bool> settled = settled_by_bits(*choices);
  for (std::size_t g = 0; g < choices->size(); ++g) {
    const Choice& c = (*choices)[g];
    if (settled[g])
      gone.push_back(c.gap);
    else if (c.way == Way::made_again || is_encoded(c))
      gone.push_back(absence(c));
  }
  const std::uint64_t encoded = encoded_peak_bytes(*choices);
  if (encoded >= limit()) return;
  const EvictionWalk walk(trace_, limit() - encoded, 0, gone);
  FarTiers far(far_);
  const auto next_use = [&](std::uint32_t gap, bool before_first_use) {
    const Gap& g = walk.gaps()[gap];
    return -static_cast<std::int64_t>(g.to) -
           (g.wraps && !before_first_use ? static_cast<std::int64_t>(trace_.ops.size()) : 0);
  };
  for (const Leaving& leaving : walk.run(next_use)) {
    const Gap& gap = walk.gaps()[leaving.gap];
    const std::optional<std::uint32_t> tier = far.place(gap, trace_.tensors[gap.tensor].bytes);
    if (!tier) continue;
    Choice& c = (*choices)[*gap_at(gap.tensor, gap.from + 1)];
    move(&c, *tier);
    for_away(c, static_cast<std::uint32_t>(trace_.ops.size()),
             [&](std::uint32_t begin, std::uint32_t end) { residency->remove(begin, end, bytes(c)); });
    lineage_.move(gap, far_.transfer_us(*tier, bytes(c), true));
  }
}

void Drafts::keep_on_the_way(Choices* choices, Residency* residency) const {
  std::vector<std::vector<Gap>> ending(trace_.ops.size());
  for (const Choice& c : *choices)
    if (c.way == Way::made_again) ending[c.in].push_back(absence(c));
  for (std::uint32_t at = 0; at < ending.size(); ++at) {
    if (ending[at].empty()) continue;
    for (const Lineage::Again& a : lineage_.again_at(at, ending[at])) {
      if (a.then != Lineage::Then::dropped) continue;
      Choice& c = (*choices)[*gap_at(a.tensor, at)];
      if (c.way != Way::made_again || bytes(c) > limit() ||
          residency->exceeds(at, c.gap.to, limit() - bytes(c)))
        continue;
      std::erase_if(ending[c.in], [&](const Gap& gap) { return gap.tensor == a.tensor; });
      lineage_.keep(c.gap);
      make_again(&c, at);
      lineage_.drop(absence(c));
      residency->add(at, c.gap.to, bytes(c));
    }
  }
}

// By gap: where what moves has to be back, which is before the operation that ends the gap if one that runs
// again reads it and it can stay from there on.
std::vector<std::uint32_t> Drafts::needed_at(const Choices& choices, Residency* residency) const {
  std::vector<std::uint32_t> needed;
  std::vector<const Choice*> again;
  for (const Choice& c : choices) {
    needed.push_back(c.gap.to);
    if (c.way == Way::made_again) again.push_back(&c);
  }
  std::stable_sort(again.begin(), again.end(),
                   [](const Choice* a, const Choice* b) { return a->in > b->in; });
  for (const Choice* c : again) {
    for (const std::uint32_t t : lineage_.rests_on(absence(*c))) {
      const std::optional<std::size_t> gap = gap_at(t, c->in);
      if (!gap || choices[*gap].gap.wraps || choices[*gap].way != Way::moves || c->in >= needed[*gap])
        continue;
      const std::uint64_t size = bytes(choices[*gap]);
      if (size > limit() || residency->exceeds(c->in, needed[*gap], limit() - size)) continue;
      residency->add(c->in, needed[*gap], size);
      needed[*gap] = c->in;
    }
  }
  return needed;
}

void Drafts::fetch_early(Choices* choices, Residency* residency) const {
  const std::vector<std::uint32_t> needed = needed_at(*choices, residency);
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < choices->size(); ++g)
    if ((*choices)[g].way == Way::moves && !is_encoded((*choices)[g])) order.push_back(g);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return needed[a] < needed[b]; });
  std::uint32_t at = 0;
  for (const std::size_t g : order) {
    Choice& c = (*choices)[g];
    const std::uint32_t begin = std::min(std::max(at, c.gap.wraps ? 0 : c.out), needed[g]);
    at = c.in = residency->earliest(begin, needed[g], bytes(c), limit());
    residency->add(at, needed[g], bytes(c));
  }
}

std::optional<Choices> Drafts::coded_where_it_pays(Choices choices) const {
  bool any = false;
  for (Choice& c : choices) {
    if (!codecs_.any() || c.way != Way::moves || c.codec != 0 || !codecs_.pays(c.gap.tensor, c.tier))
      continue;
    c.codec = codecs_.of(c.gap.tensor, c.tier);
    any = true;
  }
  if (!any) return std::nullopt;
  return choices;
}

std::optional<Choices> Drafts::staged(Choices choices) const {
  bool any = false;
  for (Choice& c : choices) {
    if (c.way != Way::moves) continue;
    for (const FarRoute& route : machine_.far_routes) {
      if (route.tier != c.tier || c.through != 0) continue;
      stage(&c, route.from);
      any = true;
    }
  }
  if (!any) return std::nullopt;
  return choices;
}

// As far as positions tell: transfers take no time.
Residency Drafts::residency_of(const Choices& choices, const std::vector<Tail>& tails) const {
  Residency residency = resident_;
  for (const Tail& t : tails)
    residency.add(lineage_.last_use(t.tensor) + 1, t.until, trace_.tensors[t.tensor].bytes);
  const auto ops = static_cast<std::uint32_t>(trace_.ops.size());
  const std::vector<bool> settled = settled_by_bits(choices);
  for (std::size_t g = 0; g < choices.size(); ++g) {
    const Choice& c = choices[g];
    if (settled[g]) continue;
    if (c.way == Way::made_again) residency.remove(c.gap.from + 1, c.in, bytes(c));
    if (c.way != Way::moves) continue;
    const std::uint64_t gone = is_encoded(c) ? bytes(c) - std::min(bytes(c), encoded_bytes(c)) : bytes(c);
    if (!c.gap.wraps) {
      if (c.out < c.in) residency.remove(c.out, c.in, gone);
      continue;
    }
    if (c.out < ops) residency.remove(c.out, ops, gone);
    if (c.in > 0) residency.remove(0, c.in, gone);
  }
  return residency;
}

wire::Schedule Drafts::schedule(const Choices& choices, const Manner& manner) const {
  std::vector<ScheduleEntry> entries;
  std::vector<const Choice*> fetched;
  lineage_.keep_all();
  for (const Tail& t : manner.tails) lineage_.hold(t.tensor, lineage_.last_use(t.tensor), t.until);
  std::optional<HoldingRoom> room;
  if (manner.holds) room.emplace(HoldingRoom{trace_, lineage_, residency_of(choices, manner.tails), limit()});
  Remaking remaking(lineage_, static_cast<std::uint32_t>(trace_.ops.size()), room ? &*room : nullptr);
  for (const Tail& t : manner.tails) remaking.add_tail(t.tensor, t.until);
  const std::vector<bool> settled = settled_by_bits(choices);
  for (std::size_t g = 0; g < choices.size(); ++g) {
    const Choice& c = choices[g];
    if (c.way == Way::stays || settled[g]) continue;
    if (c.way == Way::made_again) {
      lineage_.drop(absence(c));
      remaking.add(absence(c));
      continue;
    }
    const std::uint32_t nearest = c.through != 0 ? c.through : c.tier;
    entries.push_back({c.out, c.gap.tensor, Action::out, nearest, c.codec});
    if (c.through != 0) entries.push_back({c.out, c.gap.tensor, Action::stage, c.tier, 0});
    if (!is_as_bits(c)) fetched.push_back(&c);
  }
  std::stable_sort(fetched.begin(), fetched.end(),
                   [](const Choice* a, const Choice* b) { return a->gap.to < b->gap.to; });
  for (const Choice* c : fetched)
    if (c->through != 0) entries.push_back({c->back, c->gap.tensor, Action::stage, c->through, 0});
  for (const Choice* c : fetched) {
    const std::uint32_t nearest = c->through != 0 ? c->through : c->tier;
    entries.push_back({c->in, c->gap.tensor, Action::in, nearest, {}});
  }
  remaking.add_to(&entries);
  return sorted_schedule(trace_, "joint", entries);
}

}  // namespace terrace::planner::joint
