// All sessions, and whose turn it is of something that is not done for all of them at once.
#pragma once

#include <map>
#include <memory>

#include "daemon/sessions/session.h"

namespace terrace::daemon {

using Sessions = std::map<SessionId, std::unique_ptr<Session>>;

// The one after `*last`, which then is `*last`; there is one.
inline Session& next_in_turn(const Sessions& sessions, SessionId* last) {
  auto next = sessions.upper_bound(*last);
  if (next == sessions.end()) next = sessions.begin();
  *last = next->first;
  return *next->second;
}

}  // namespace terrace::daemon
