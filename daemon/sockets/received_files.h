// Files that clients send, received, looked at and closed on threads that may hang.
//
// A client chooses what a descriptor refers to, and so how long the last close of it takes: a TCP socket with
// unsent bytes lingers for as long as its owner set, a FUSE file waits for its owner's program, and fstat()
// waits as well. Nor does it help to leave the descriptors where they are: whoever closes the Unix socket
// that they are queued in closes them too. So the loop only peeks, which says whether a packet brings
// descriptors, and such a packet is received, or its socket closed, here.
//
//   loop ── socket ──▶ queue of its user ──▶ thread: recvmsg, fstat ── result ──▶ loop
//                                                    └─▶ close
//
// Bounds: a user has one thread, so that he can only keep himself waiting, and all users together 16; a
// thread holds one descriptor of a client's at a time. A pool file, or a period's memfd, goes on to the loop
// with its result, one for each connection; who does not keep a pool file brings it back to close(). A
// period's is closed wherever it is let go of last, since that cannot hang. What waits is sockets, which the
// server bounds by pending() and closing_of(). A thread that hangs does not delay our end: exit() does not
// wait for it, and a process that exits does not linger (but the kernel makes it wait for a FUSE server that
// does not answer).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/planning/sealed_file.h"
#include "daemon/pools/pool_file.h"

namespace terrace::daemon {

class ReceivedFiles {
 public:
  static constexpr std::size_t max_threads = 16;

  struct Result {
    std::uint64_t ticket = 0;
    uid_t uid = 0;
    std::optional<PoolFile> file;  // nothing: not exactly one descriptor, or one of something else
    PeriodFile period;             // where one was expected
  };

  ReceivedFiles();
  ~ReceivedFiles();
  ReceivedFiles(const ReceivedFiles&) = delete;

  // Receives the next packet of `socket`, a duplicate that is ours; results() tells what came with it. Nobody
  // else may read from that socket meanwhile. `ticket` is not 0.
  void inspect(std::uint64_t ticket, uid_t uid, UniqueFd socket);
  // The same for a period of so many bytes instead of a pool file.
  void inspect_period(std::uint64_t ticket, uid_t uid, UniqueFd socket, std::uint64_t image_bytes);
  // Closes a socket with whatever is queued in it, or a file.
  void close(uid_t uid, UniqueFd descriptor);
  // Closes the file of a result, unless somebody else has its descriptor, too.
  void give_back(uid_t uid, std::optional<PoolFile> file);

  // Readable while there are results.
  int event_fd() const;
  std::vector<Result> results();
  // Sockets that wait here, or whose closing takes its time.
  std::size_t pending() const;
  std::size_t closing_of(uid_t uid) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // threads that hang outlive us
};

// Whether descriptors are queued in a socket that is shut down and read by nobody else. Reads away what comes
// before them.
bool has_queued_files(int socket);

}  // namespace terrace::daemon
