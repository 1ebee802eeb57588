// Jobs that do at once what the arbiter tells them.
#pragma once

#include "daemon/shares/arbiter.h"
#include "tests/units.h"

namespace terrace::daemon::test {

// Rebalances `rounds` times. The processes 1 to `last` give up at once what they are told to, use all that
// they are granted, and would use more.
inline void obey(Arbiter& arbiter, SessionId last, int rounds = 10) {
  for (int i = 0; i < rounds; ++i) {
    arbiter.rebalance();
    for (SessionId id = 1; id <= last; ++id)
      arbiter.observe(id, {arbiter.granted_bytes(id), 64 * terrace::tests::gib});
    arbiter.end_round();
  }
}

}  // namespace terrace::daemon::test
