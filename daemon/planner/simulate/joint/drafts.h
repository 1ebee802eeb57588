// A plan as one choice for each gap between two uses: the tensor stays, moves, or is made again.
//
//     operation   from  .  .  .  .  .  .  .  .  .  to
//     stays       xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
//     moves       xxxxxxx      ........      xxxxxxxx
//     made again  xxxx   ................    xxxxxxxx
//
// What moves leaves before operation `out` and is fetched before `in`; what is made again is dropped at once,
// and computed before `in`. To rest encoded in tier 0 is to move to the tier inside it, if the machine has
// one. What rests as one bit a value stays so until it dies, whatever is said of its later gaps. What moves
// may go through a nearer tier, if a far route leads on from there: it leaves for that tier and is staged to
// its own at once, is staged back at position `back`, and comes from the nearer tier.
//
// Drafts turns choices into schedules and reads published schedules as choices, so that a search can start
// from any of them; what a choice cannot say (waits, an order of transfers of one position) is lost on the
// way in. What is made again early serves several operations with one chain of computations: a tensor that a
// chain computes on its way may stay from there on (`keep_on_the_way`).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/gaps/lineage.h"
#include "daemon/planner/simulate/policies/compressing.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner::joint {

enum class Way : std::uint8_t { stays, moves, made_again };

struct Choice {
  Gap gap;
  Way way = Way::stays;
  std::uint32_t tier = 0;         // moves
  std::uint32_t out = 0, in = 0;  // positions; `out` of what moves alone
  std::uint32_t codec = 0;        // of what moves, as in wire::ScheduleEntry
  std::uint32_t through = 0;      // of what moves: the nearer tier, 0: none
  std::uint32_t back = 0;         // position, not after `in`
};

using Choices = std::vector<Choice>;  // one for each gap of gaps_of(), in its order

// A content that stays beyond its tensor's last use in the step, for what is made again of it before
// operation `until`.
struct Tail {
  std::uint32_t tensor = 0, until = 0;
};

// What else makes a plan of choices.
struct Manner {
  Victims victims = Victims::belady;  // of what the plan leaves open
  bool holds = false;                 // what is made again on the way stays where there is room (remaking.h)
  std::vector<Tail> tails = {};
};

class Drafts {
 public:
  // Both must outlive it. O(n log n).
  Drafts(const wire::Trace& trace, const Machine& machine);

  const wire::Trace& trace() const { return trace_; }
  const Machine& machine() const { return machine_; }
  const FarTiers& far() const { return far_; }
  const std::vector<double>& starts_us() const { return starts_us_; }
  std::uint64_t bytes(const Choice& c) const { return trace_.tensors[c.gap.tensor].bytes; }

  Choices all_stay() const;
  // The gap of a tensor that an entry at this position belongs to.
  std::optional<std::size_t> gap_at(std::uint32_t tensor, std::uint32_t position) const;
  // Whether its content can be computed again at all, if all that it comes from is kept.
  bool can_be_made_again(std::size_t gap) const { return again_[gap]; }

  // The codec that the tensor's moves to this tier may have; 0: none makes it smaller.
  std::uint32_t codec_for(const Choice& c, std::uint32_t tier) const {
    return codecs_.any() ? codecs_.of(c.gap.tensor, tier) : 0;
  }
  // The codec with which it can rest encoded in tier 0; 0: it cannot.
  std::uint32_t codec_inside(const Choice& c) const {
    if (inside_ == 0) return 0;
    const std::uint32_t bits = bits_.codec(c.gap);
    return bits != 0 ? bits : codec_for(c, inside_);
  }
  std::uint32_t inside() const { return inside_; }  // the tier; 0: there is none
  // Move out at once, and back in just in time for an idle link.
  void move(Choice* c, std::uint32_t tier, std::uint32_t codec = 0) const;
  // What moves goes through this tier, from which a far route leads to its own, and is staged back in time
  // for `in` if the route is idle.
  void stage(Choice* c, std::uint32_t through) const;
  const std::vector<FarRoute>& far_routes() const { return machine_.far_routes; }
  void make_again(Choice* c, std::uint32_t in) const;
  // The last position that begins no later than this, in a step that never waits.
  std::uint32_t position_at(double time_us) const;

  void encode(Choice* c) const { move(c, inside_, codec_inside(*c)); }  // what codec_inside() has one for

  // Stands in for a published plan; `report` (with a timeline) tells what it moved on demand. Of its codecs
  // stay those of what may have one here.
  Choices read(const wire::Schedule& schedule, const SimulationReport& report) const;

  // First what is cheap to make again, up to `most_us_per_byte`, then, with `encoding`, what can rests
  // encoded, then Belady's rule moves what is left over; each as far as memory is short. Everything comes
  // back as early as there is room.
  Choices construct(double most_us_per_byte, bool encoding) const;

  // What is made again from so much that moves that bringing it back early costs more than that is moved
  // itself instead; nothing where that is none.
  std::optional<Choices> revised(Choices choices, double most_us_per_byte) const;

  // Keeps what is made again, and lets Belady's rule move what memory lacks beside it; moves in `choices` are
  // forgotten.
  Choices complete(Choices choices) const;

  // The same moves with a codec each for which that is predicted to pay, alone on the link; nothing where
  // that is none.
  std::optional<Choices> coded_where_it_pays(Choices choices) const;

  // The same moves, staged wherever a far route leads to their tier; nothing where that is none.
  std::optional<Choices> staged(Choices choices) const;

  // Of the manner, all but the victims.
  wire::Schedule schedule(const Choices& choices, const Manner& manner) const;

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  FarTiers far_;
  SparseCodecs codecs_;
  BitRests bits_;
  std::vector<double> starts_us_;
  Residency resident_;  // if nothing moves
  std::vector<Gap> gaps_;
  std::vector<std::uint32_t> first_gap_;  // by tensor, into gaps_; one more entry
  std::vector<bool> again_;
  std::uint32_t inside_;
  mutable Lineage lineage_;  // scratch: of the choices that are looked at

  Residency residency_of(const Choices& choices, const std::vector<Tail>& tails) const;
  void read_stage(const wire::ScheduleEntry& e, Choice* c) const;
  std::uint64_t encoded_bytes(const Choice& c) const;
  bool is_encoded(const Choice& c) const { return c.way == Way::moves && inside_ != 0 && c.tier == inside_; }
  std::uint64_t limit() const { return machine_.tiers[0].capacity_bytes; }
  bool is_as_bits(const Choice& c) const { return is_encoded(c) && machine_.keeps_one_bit(c.codec); }
  // By gap: whether the tensor rests as bits since an earlier one, so that the choice says nothing.
  std::vector<bool> settled_by_bits(const Choices& choices) const;
  std::vector<bool> read_again(const Choices& choices) const;
  // Where the memory that encoding frees is taken again.
  std::uint32_t encoded_until(const Choice& c) const {
    return is_as_bits(c) ? lineage_.last_use(c.gap.tensor) + 1 : c.gap.to;
  }
  void add_moves(Choices* choices, Residency* residency) const;
  void remake_cheap(double most_us_per_byte, Choices* choices, Residency* residency) const;
  bool keep_dear(double most_us_per_byte, Choices* choices) const;
  void encode_cheap(Choices* choices, Residency* residency) const;
  std::uint64_t encoded_peak_bytes(const Choices& choices) const;
  void keep_on_the_way(Choices* choices, Residency* residency) const;
  void move_the_rest(Choices* choices, Residency* residency) const;
  std::vector<std::uint32_t> needed_at(const Choices& choices, Residency* residency) const;
  void fetch_early(Choices* choices, Residency* residency) const;
};

}  // namespace terrace::planner::joint
