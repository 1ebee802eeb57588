#include "liballoc/lifetimes/known_phase.h"

#include <algorithm>

namespace terrace::liballoc {

void KnownPhase::finish(std::uint32_t first) {
  std::rotate(tokens_, tokens_ + first, tokens_ + length);
  std::uint32_t following[most_members];
  std::fill_n(following, most_members, no_ordinal);
  std::fill_n(member_list, most_members, Member{});
  has_marks = false;
  // Twice, so that the last event of each thread finds the first.
  for (std::uint32_t round = 0; round < 2; ++round) {
    for (std::uint32_t i = length; i-- > 0;) {
      const std::uint32_t m = member(i);
      next_[i] = static_cast<std::uint16_t>(following[m] == no_ordinal ? i : following[m]);
      following[m] = i;
    }
  }
  for (std::uint32_t i = length; i-- > 0;) {
    Member& m = member_list[member(i)];
    m.first = i;
    ++m.events;
    members = std::max(members, member(i) + 1);
    has_marks = has_marks || token(i) == mark_token;
  }
  entry = lead().first;
}

std::uint32_t KnownPhase::first_from(std::uint32_t ordinal, std::uint32_t m) const {
  for (std::uint32_t i = 0; i < length; ++i) {
    const std::uint32_t at = ordinal + i < length ? ordinal + i : ordinal + i - length;
    if (member(at) == m) return at;
  }
  return member_list[m].first;
}

}  // namespace terrace::liballoc
