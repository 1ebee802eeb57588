// Control requests, and who is answered when.
//
// Who joins waits for no more than one answer: answers are given one after the other, and between two of them
// everybody else has a turn. A user who has asked for much waits (control_limit.h), and an answer that tells
// of all jobs is written in turns (long_answer.h). One thread, the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/control/control.h"
#include "daemon/control/control_limit.h"
#include "daemon/packets/handling.h"

namespace terrace::daemon {

class Answers {
 public:
  // What an answer is taken from; asked for at each.
  using ContextOf = std::function<ControlContext()>;

  Answers(const Handling& handling, ContextOf context_of)
      : handling_(handling), context_of_(std::move(context_of)) {}

  // The loop has waited: there is time for answers again.
  void begin_round() { spent_ns_ = 0; }
  // What else took of that time.
  void charge(std::uint64_t spent_ns) { spent_ns_ += spent_ns; }
  // Answers a control request, now or later.
  std::string request(ConnectionId id, const Packet& packet);
  // At the end of a round: those that wait, as far as there is time.
  void answer_postponed();
  // The loop need not wait: some could be answered at once.
  bool has_more() const { return has_more_; }

 private:
  std::string answer(ConnectionId id, const Packet& packet);
  std::string postpone(ConnectionId id, const Packet& packet, bool has_turn);
  std::string go_on(ConnectionId id);
  std::vector<ConnectionId> waiting() const;

  Handling handling_;
  ContextOf context_of_;
  ControlLimit limit_;
  std::uint64_t spent_ns_ = 0;  // since the loop waited last
  ConnectionId last_answered_ = 0;
  bool has_more_ = false;
};

}  // namespace terrace::daemon
