// What those who handle packets work on. All of it belongs to the loop's thread and lives longer than they.
//
// A handler of a packet returns "" or the rule that the client broke, for which its connection is dropped.
#pragma once

#include "daemon/sessions/registry.h"
#include "daemon/settings/config.h"
#include "daemon/sockets/connections.h"
#include "daemon/sockets/log_limit.h"
#include "daemon/sockets/loop.h"
#include "daemon/sockets/received_files.h"

namespace terrace::daemon {

struct Handling {
  const Config& config;  // as the last reload left it
  Loop& loop;
  LogLimit& log_limit;
  Connections& connections;
  ReceivedFiles& files;
  Registry& registry;
};

}  // namespace terrace::daemon
