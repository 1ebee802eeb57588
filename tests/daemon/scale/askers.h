// Clients that ask a hundred times a second, whether or not they are answered.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace terrace::tests::scale {

class Askers {
 public:
  Askers() = default;
  ~Askers() { stop(); }
  Askers(const Askers&) = delete;

  // One client of each of these users. Who owns sessions changes the budget of one of his own jobs, too.
  void start(const std::string& socket, const std::vector<uid_t>& users, std::uint64_t per_second);
  void stop();
  std::uint64_t asked() const { return asked_; }
  std::uint64_t held_back() const { return held_back_; }  // the socket was full
  std::uint64_t answered() const { return answered_; }
  std::uint64_t disconnected() const { return disconnected_; }

 private:
  void ask_on(const std::string& socket, uid_t uid, std::uint64_t per_second);
  bool read_answers(int socket);

  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> asked_{0}, held_back_{0}, answered_{0}, disconnected_{0};
};

}  // namespace terrace::tests::scale
