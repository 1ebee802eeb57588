// Sessions that write all that they are leased.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/writes/write_shares.h"

namespace terrace::daemon::test {

struct LeasedWriters {
  WriteShares shares;
  records::Endurance written{.day = 20000, .total_bytes = 0, .today = {}};
  std::map<SessionId, WriteLease> told;

  void lease(const WriteShares::WeightOf& weight_of) {
    for (const WriteLease& given : shares.lease(weight_of, &written)) told[given.session] = given;
  }
  // Until it is told that there is no more.
  std::uint64_t write_all(SessionId session, const WriteShares::WeightOf& weight_of) {
    for (int i = 0; i < 1000; ++i) {
      lease(weight_of);
      shares.observe(session, told[session].most_written_bytes);
      if (told[session].is_last && shares.ahead_bytes(session) == 0) break;
    }
    return told[session].most_written_bytes;
  }
};

}  // namespace terrace::daemon::test
