// Periods that jobs send, and the schedules that go back: a period's file is received and looked at by
// received_files.h, planned beside the loop by planning_thread.h, and what comes of it is sent and noted
// here. One thread, the loop's.
#pragma once

#include <string>

#include "daemon/packets/handling.h"
#include "daemon/planning/planning_thread.h"

namespace terrace::daemon {

class Plans {
 public:
  explicit Plans(const Handling& handling) : handling_(handling) {}

  // A job sends a period: its packet is still in the socket, descriptor and all.
  std::string period(ConnectionId id, const Packet& packet);
  // Its file was looked at.
  void inspected(ConnectionId id, PeriodFile file);
  // Readable while there are plans to be sent by send().
  int event_fd() const { return planning_.event_fd(); }
  void send();
  // The session ends: nobody waits for its plans any more.
  void forget(SessionId session) { planning_.forget(session); }

 private:
  void send(PlanResult result);
  void note(Session& session, const PlanResult& result);

  Handling handling_;
  PlanningThread planning_;
};

}  // namespace terrace::daemon
