// A terraced of a test's own.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace terrace::hazards {

// Started with the object and listening when the constructor returns; killed with it, and with the program.
class Daemon {
 public:
  struct Pool {
    std::string directory;
    bool is_encrypted = false;  // [pool] encrypt
    std::string size = "1G";
  };
  // Its socket is in `directory`. Its pool is there too, unless the program runs with an encrypted one
  // (encrypted_pool.h).
  explicit Daemon(const std::string& directory);
  Daemon(const std::string& directory, const Pool& pool);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Sends the signal and waits for the end, but for SIGSTOP.
  void end(int signal);
  const std::string& socket() const { return socket_; }
  pid_t pid() const { return pid_; }
  // As `terrace set --dram` does; the answer.
  std::string set_budget(const std::string& job, std::size_t bytes) const;

 private:
  std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace terrace::hazards
