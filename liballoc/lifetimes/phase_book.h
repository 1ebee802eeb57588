// The phases that are known, and where in one of them the program might be.
//
// A program comes back to a phase: training, evaluation, training. While a phase is not claimed, each event
// of its lead thread is compared with what the phase would bring next. A try begins where the phase was
// entered last time, where it begins, or behind eight tokens that occur in it once only; it ends at the first
// event that differs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/known_phase.h"
#include "liballoc/lifetimes/repeats/history.h"

namespace terrace::liballoc {

class PhaseBook {
 public:
  static constexpr std::uint32_t most = 8;
  static constexpr std::uint32_t none = UINT32_MAX;
  static constexpr std::uint32_t anchor_slots = 1U << 15;
  static constexpr std::size_t bytes = most * KnownPhase::bytes + std::size_t{anchor_slots} * 8;

  struct Trial {
    std::uint32_t expected = 0;
    std::uint32_t run = 0;             // 0: no try goes on
    std::uint32_t start = no_ordinal;  // where the run began, if that is known
  };

  void use(std::byte* memory);
  // A slot for a new phase: a free one, or that of the phase that was seen least recently, but not `claimed`.
  std::uint32_t take(std::uint32_t claimed, std::uint32_t id);
  // The phase in the slot is complete.
  void learned(std::uint32_t slot);
  void forget(std::uint32_t slot) { phases_[slot].id = 0; }
  std::uint32_t known() const;

  // After an event of `thread`: goes on with the tries of all phases but the claimed one. `gram`: the hash of
  // its last eight tokens, or 0 to begin none behind such.
  void try_all(std::uint32_t thread, std::uint32_t token, std::uint64_t gram, std::uint32_t claimed);
  // A phase that the program has come back to, or none; not while another is as likely.
  std::uint32_t returned(std::uint32_t thread, std::uint32_t claimed) const;
  const Trial& trial(std::uint32_t slot) const { return trials_[slot]; }
  void end_trials();
  // Notes where the phase's run began, so that it is known there next time.
  void note_entry(std::uint32_t slot, const History& history);

  // Where the `length` events from `from` on occur in the phase: an ordinal of its lead, or no_ordinal. One
  // event in 32 may differ behind the first eight.
  std::uint32_t find_in(std::uint32_t slot, const History& history, std::uint32_t from,
                        std::uint32_t length) const;
  // Whether one period of the phase occurs in [from, from + length) of the thread's history.
  bool occurs_in(std::uint32_t slot, const History& history, std::uint32_t from, std::uint32_t length) const;

  KnownPhase& operator[](std::uint32_t slot) { return phases_[slot]; }
  const KnownPhase& operator[](std::uint32_t slot) const { return phases_[slot]; }

 private:
  struct Anchor {
    std::uint32_t tag;
    std::uint16_t ordinal;
    std::uint16_t is_ambiguous;
  };

  Anchor& anchor_of(std::uint64_t key) const { return anchors_[key & (anchor_slots - 1)]; }
  void add_anchor(const KnownPhase& phase, std::uint64_t gram, std::uint32_t ordinal);
  std::uint32_t find_anchor(const KnownPhase& phase, std::uint64_t gram) const;
  void try_one(const KnownPhase& phase, std::uint32_t token, std::uint64_t gram, Trial* trial) const;
  static std::uint32_t needed(const KnownPhase& phase);

  KnownPhase phases_[most];
  Trial trials_[most];
  Anchor* anchors_ = nullptr;
};

}  // namespace terrace::liballoc
