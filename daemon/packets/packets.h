// What clients send, and who handles it.
//
//   connection ─ whole packet ─▶ Hello, NvmHeld ▶ Greetings     Control ▶ Answers
//                                Period         ▶ Plans         Log, Goodbye: here
//
// A client that breaks a rule is disconnected with one line in the log. One thread, the loop's.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/packets/announcements.h"
#include "daemon/packets/answers.h"
#include "daemon/packets/greetings.h"
#include "daemon/packets/handling.h"
#include "daemon/packets/plans.h"

namespace terrace::daemon {

class Packets {
 public:
  Packets(const Handling& handling, Answers::ContextOf context_of)
      : handling_(handling),
        announcements_(handling),
        greetings_(handling, announcements_),
        answers_(handling, std::move(context_of)),
        plans_(handling) {}
  Packets(const Packets&) = delete;

  // Something happened to a connection.
  void handle(ConnectionId id, std::uint32_t events);
  // Files that clients sent were looked at.
  void take_inspected();
  // A job's connection is being dropped; see Connections.
  void left(const Connection& connection, const std::string& why);
  // Now and then: greetings that waited are answered, jobs are told what has changed for them, and who says
  // nothing is disconnected.
  void tick();

  Greetings& greetings() { return greetings_; }
  Answers& answers() { return answers_; }
  const Answers& answers() const { return answers_; }
  Plans& plans() { return plans_; }

 private:
  bool read(ConnectionId id);
  std::string handle_packet(ConnectionId id, const Packet& packet);
  std::string handle_job_packet(ConnectionId id, wire::Type type, const Packet& packet);
  std::string log(ConnectionId id, const Packet& packet);
  void take_inspected(ReceivedFiles::Result* result);

  Handling handling_;
  Announcements announcements_;
  Greetings greetings_;
  Answers answers_;
  Plans plans_;
};

}  // namespace terrace::daemon
