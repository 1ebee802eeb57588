// Serves metrics to whoever connects to their socket, beside everything else that the loop does. One thread,
// the loop's; nothing here waits for a client.
//
//   accept ─▶ reading ─ whole request ─▶ sending ─ all sent ─▶ lingering ─ its end, or ours ─▶ closed
//
// A connection has one request and one answer. It lingers because the kernel takes an answer back when a
// socket is closed with unread bytes in it (RFC 9112, section 9.6).
//
// Bounds, whatever clients do: ten connections a second and some more in a row; 16 at once, where the
// oldest makes room; ten seconds each; a request of 8 KiB, and as much again eight times to be thrown away.
// The text is written once a second at most, and those that are sent are shared.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/metrics/listening_socket.h"
#include "daemon/metrics/request.h"
#include "daemon/sockets/door.h"
#include "daemon/sockets/poller.h"
#include "daemon/sockets/rate_limit.h"

namespace terrace::daemon {

class MetricsEndpoint {
 public:
  static constexpr std::size_t max_connections = 16;
  static constexpr std::uint64_t patience_ns =
      10'000'000'000;  // from its first byte to the end of its answer
  static constexpr std::uint64_t linger_ns = 1'000'000'000;
  static constexpr std::uint64_t fresh_ns = 1'000'000'000;  // so long one text is everybody's answer
  static constexpr std::size_t most_discarded = std::size_t{8} * max_metrics_request;

  // Of events: 0 is the listener's, any other one a connection's.
  using TagOf = std::uint64_t (*)(std::uint64_t number);
  // Writes the text.
  using Render = std::function<std::string()>;

  // Poller and door live longer.
  MetricsEndpoint(const Poller& poller, Door& door, TagOf tag_of, Render render)
      : poller_(poller), door_(door), tag_of_(tag_of), render_(std::move(render)) {}
  ~MetricsEndpoint() { close(); }
  MetricsEndpoint(const MetricsEndpoint&) = delete;

  // As ListeningSocket::open().
  std::string open(const Config& config, bool only_owner, UniqueFd handed_over);
  // Something happened to the listener or a connection.
  void handle(std::uint64_t number, std::uint32_t events, std::uint64_t now_ns);
  // Now and then, once a second at least: ends what took too long.
  void tick(std::uint64_t now_ns);
  std::size_t connections() const { return clients_.size(); }
  void close();

 private:
  struct Client {
    UniqueFd socket;
    std::uint64_t until_ns = 0;
    std::string received;
    std::string head;                         // of the answer; empty: it has none yet
    std::shared_ptr<const std::string> body;  // or null
    std::size_t sent = 0;
    std::size_t discarded = 0;
    bool lingers = false;
  };
  using Chunk = std::array<char, 4096>;

  void accept(std::uint64_t now_ns);
  void listen(bool on);
  void serve(std::uint64_t number, std::uint32_t events, std::uint64_t now_ns);
  bool receive(Client* client, std::uint64_t now_ns);
  bool discard(Client* client);
  void answer(Client* client, MetricsAnswer answer, std::uint64_t now_ns);
  bool send(Client* client, std::uint64_t now_ns);
  std::ptrdiff_t read_some(const Client& client, Chunk* chunk) const;
  bool may_bring_files(int socket) const;
  void drop(std::uint64_t number);
  void dispose(UniqueFd socket);

  const Poller& poller_;
  Door& door_;
  TagOf tag_of_;
  Render render_;
  ListeningSocket socket_;
  std::map<std::uint64_t, Client> clients_;  // by number: the oldest first
  std::uint64_t next_number_ = 1;
  RateLimit accepts_{100'000'000, 16};
  bool is_listening_ = true;
  std::shared_ptr<const std::string> text_;
  std::uint64_t text_ns_ = 0;
};

}  // namespace terrace::daemon
