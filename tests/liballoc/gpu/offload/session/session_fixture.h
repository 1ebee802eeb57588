// An engine's daemon and its job: what the daemon shows, tensors that are saved and checked, and daemons that
// are no good ones.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "daemon/sessions/process/segment_layout.h"
#include "daemon/sockets/connection.h"
#include "tests/daemon/support.h"
#include "tests/liballoc/gpu/offload/engine_fixture.h"
#include "tests/liballoc/variable.h"

namespace terrace::liballoc::offload::test {

using liballoc::test::Variable;
using nlohmann::json;
using tests::eventually;
using tests::TemporaryDirectory;

// The environment of a job under that daemon.
struct JobOf {
  explicit JobOf(const std::string& path, const std::string& budget = "") {
    socket.emplace("TERRACE_SOCKET", path);
    name.emplace("TERRACE_JOB", "train");
    if (!budget.empty()) dram.emplace("TERRACE_DRAM", budget);
  }
  std::optional<Variable> socket, name, dram;
};

inline json job_at(const std::string& socket) {
  const json answer = tests::ask(socket, {{"verb", "jobs"}});
  return answer["jobs"].empty() ? json::object() : answer["jobs"][0];
}

inline json engine_at(const std::string& socket) {
  const json job = job_at(socket);
  return job.contains("sessions") ? job["sessions"][0] : json::object();
}

inline std::uint64_t counter(const json& session, const char* name) {
  return session.value("statistics", json::object()).value(name, std::uint64_t{0});
}

inline void set_budget(const std::string& socket, std::uint64_t bytes) {
  REQUIRE(tests::ask(socket, {{"verb", "set_budget"}, {"job", "train"}, {"bytes", bytes}})["ok"] == true);
}

struct Saved {
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;

  // Of `bytes` each, until one is refused. How many.
  std::size_t fill(const Opened& engine, std::size_t most, std::uint64_t bytes = mib) {
    std::size_t stored = 0;
    for (; stored < most; ++stored) {
      sources.push_back(content(bytes, sources.size()));
      auto source = sources.back();
      std::uint64_t id = 0;
      if (engine.try_store(source, &id) != 0 || engine.left(id) != 1) {
        sources.pop_back();
        if (id != 0) engine.release(id);
        break;
      }
      std::fill(source.begin(), source.end(), std::byte{0x5a});
      ids.push_back(id);
    }
    return stored;
  }
  void check(const Opened& engine) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::vector<std::byte> back(sources[i].size());
      REQUIRE(engine.fetch(ids[i], back) == 0);
      CHECK((back == sources[i]));
      engine.release(ids[i]);
    }
    ids.clear();
    sources.clear();
  }
};

// Greeted, it never answers.
class SilentDaemon {
 public:
  SilentDaemon() {
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path_.begin(), path_.end(), address.sun_path);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 5) == 0);
  }
  const std::string& path() const { return path_; }
  daemon::UniqueFd accepted() const {
    return daemon::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "silent.sock";
  daemon::UniqueFd listener_;
};

// What this process has open of files on a drive, with a name or without one.
inline std::set<std::string> open_files() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(entry.path(), gone);
    struct stat state {};
    const bool is_file = ::stat(entry.path().c_str(), &state) == 0 && S_ISREG(state.st_mode);
    const bool is_on_drive = is_file && !file.starts_with("/memfd:") && !file.starts_with("/proc/");
    if (is_on_drive) found.insert(file + " " + std::to_string(state.st_ino));
  }
  return found;
}

inline daemon::Segment made_segment() {
  daemon::Segment made;
  REQUIRE(daemon::Segment::create(&made) == 0);
  return made;
}

// Whatever it says is well formed, and none of it is so: it grants more than there is. Or it grants no pool.
class LyingDaemon {
 public:
  explicit LyingDaemon(std::uint32_t welcome_flags = wire::welcome_pool_fd)
      : flags_(welcome_flags), accepting_([this] { greet(); }) {}
  ~LyingDaemon() {
    if (accepting_.joinable()) accepting_.join();
    ::close(pool_);
  }
  void await() { accepting_.join(); }
  const std::string& path() const { return silent_.path(); }
  template <class Message>
  void send(const Message& message) {
    REQUIRE(connection_->send(&message, sizeof message) == 0);
  }
  void limit(std::uint64_t bytes) {
    auto budget = wire::make<wire::Budget>();
    budget.budget_bytes = budget.pool_limit_bytes = bytes;
    send(budget);
  }
  // All that lies in the pool is something else.
  void spoil_pool() const {
    const std::vector<std::byte> other(mib, std::byte{0x77});
    for (std::uint64_t at = 0; at < 256 * mib; at += mib)
      if (::pwrite(pool_, other.data(), other.size(), static_cast<off_t>(at)) < 0) FAIL("pwrite");
  }

 private:
  void greet() {
    using namespace terrace::daemon;
    connection_.emplace(silent_.accepted(), Peer{}, 0);
    Packet packet;
    eventually([&] { return connection_->receive(&packet) == 0; });
    auto welcome = wire::make<wire::Welcome>();
    const bool has_pool = (flags_ & wire::welcome_pool_fd) != 0;
    welcome.flags = wire::welcome_segment_fd | flags_;
    welcome.budget_bytes = ~std::uint64_t{0};
    if (has_pool) welcome.pool_capacity_bytes = welcome.pool_limit_bytes = ~std::uint64_t{0};
    welcome.segment_bytes = segment_.bytes();
    welcome.stats_offset = segment_.stats_offset();
    welcome.ring_offset = segment_.ring_offset();
    welcome.ring_capacity = Segment::ring_capacity;
    const int fds[] = {segment_.fd(), pool_};
    connection_->send(&welcome, sizeof welcome, std::span(fds).first(has_pool ? 2 : 1));
  }

  std::uint32_t flags_;
  SilentDaemon silent_;
  daemon::Segment segment_ = made_segment();
  int pool_ = ::open(TERRACE_TEST_POOL_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  std::optional<daemon::Connection> connection_;
  std::thread accepting_;
};

}  // namespace terrace::liballoc::offload::test
