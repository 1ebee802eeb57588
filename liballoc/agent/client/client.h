// The job's end of the connection to terraced.
//
// It lives inside a program that knows nothing of it, on the paging agent's thread: it never allocates, never
// throws, takes no lock of the C library, and every wait has a bound. The daemon may be absent, die or be
// replaced at any moment; the job keeps its last grant and its pool file, and this class finds the next
// daemon and says what it holds. With `respawn` it starts that daemon itself.
//
// Counters and events are written straight into memory. While no daemon is there, the same calls write into a
// private mapping, so the writer never asks whether somebody listens.
//
//   start() ──welcome──> connected ──daemon gone──> disconnected ──connect, hello──> greeting ──welcome──┐
//      └──refused / nobody there                         ^              └──refused, 2 s──┘               │
//                                                        └───────────────────────────────── connected <──┘
//
// Threads: push() by any thread, one at a time (the heap's lock); stats() and what it points to by any
// thread; all else by the agent's thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/agent/client/areas.h"
#include "liballoc/agent/client/daemon_starter.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/wire/protocol.h"
#include "liballoc/wire/segment.h"

namespace terrace::liballoc {

// The strings are copied. nullptr is an empty string everywhere.
struct ClientConfig {
  const char* socket_path = nullptr;
  const char* job = nullptr;
  const char* program = nullptr;
  std::uint64_t requested_budget_bytes = 0;  // 0: whatever the job gets
  std::uint64_t pool_wanted_bytes = 0;       // 0: none, wire::any_bytes: what there is
  std::uint16_t weight = 0;                  // wire::Hello's
  bool wants_tiers = false;                  // would have what the daemon has before the pool
  const char* daemon_path = nullptr;         // of terraced, absolute; for `respawn`
  const char* daemon_config = nullptr;  // nullptr: "<socket_path>.toml", which a private daemon leaves there
  bool respawn = false;                 // the daemon is ours alone: start another when it dies
  bool is_engine = false;               // an offload engine; `program` names its device
  std::uint64_t gpu_bytes = 0;  // not 0: a heap in the memory of a GPU of that size, which `program` names
};

// What the daemon gave. Descriptors are close-on-exec and -1 when there is none. They belong to the client,
// which keeps them open until shutdown(): use them, do not close them. They stay valid across reconnects.
struct Grant {
  std::uint64_t budget_bytes = 0;
  int pool_fd = -1;
  std::uint64_t pool_capacity_bytes = 0;
  std::uint64_t pool_limit_bytes = 0;  // how much of the pool may be in use now (processes of one job share)
  std::uint64_t most_written_bytes = wire::any_bytes;  // how far written_bytes may go on the pool's drive
  bool is_last_lease = false;                          // that is all for today
  bool encrypts_pools = false;                         // what it granted, or would have
  int nvm_fd = -1;                                     // a file on the daemon's NVM
  std::uint64_t nvm_capacity_bytes = 0;
  std::uint64_t nvm_limit_bytes = 0;  // how much of it may be in use now (processes of one job share)
  bool shares_nvm = false;            // it divides NVM: whoever was given none takes none by himself
  char tiers[wire::text_bytes] = {};  // for jobs that name none, as TERRACE_TIERS has them; without NVM
  int uffd_device_fd = -1;
  std::uint64_t session_id = 0;
};

// A plan that the daemon made for a period, or why there is none (image_bytes 0).
struct SentPlan {
  std::uint32_t phase = 0;
  std::uint64_t period_hash = 0;
  std::uint64_t image_bytes = 0;
  std::uint64_t budget_bytes = 0;  // that it was planned for
  int fd = -1;                     // the client's, until the next step()
  char text[wire::text_bytes] = {};
};

enum class Notice { nothing, budget_changed, trim, schedule, disconnected, reconnected };

class Client {
 public:
  // constexpr, so that a static one needs no constructor to run: it may be used before any has.
  constexpr Client() noexcept = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Does nothing: a preload library has no orderly end. shutdown() is the destructor.
  ~Client() = default;

  // Connects and waits at most 2 s for the daemon's answer. 0; EINVAL (config), ENOMEM, the errno of connect,
  // ETIMEDOUT, EPROTO/EBADMSG, or the errno of a refusal, whose reason is refused_text(). After a failure
  // other than EINVAL, ENOMEM or a refusal, step() goes on trying.
  int start(const ClientConfig& config) noexcept;
  // Says goodbye and closes everything.
  void shutdown() noexcept;

  bool connected() const noexcept { return state_ == State::connected; }
  const Grant& grant() const noexcept { return grant_; }
  const char* refused_text() const noexcept { return refused_text_; }
  // After Notice::schedule, until the next step().
  const SentPlan& plan() const noexcept { return plan_; }

  // The job keeps its data in a file of its own: a pool that was granted is given up, and no other is
  // asked for.
  void use_no_pool() noexcept;

  // Poll it for reading; -1 while there is no socket. It changes: ask before every poll.
  int wait_fd() const noexcept { return socket_; }

  // Call when wait_fd() is readable and every 100 ms, until it returns nothing. `now_ns` is CLOCK_MONOTONIC.
  Notice step(std::uint64_t now_ns) noexcept;

  // Never nullptr. Set absolute values: the memory behind it changes when another daemon takes over.
  wire::JobStats* stats() noexcept { return areas_.stats(); }
  void push(const wire::Event& event) noexcept { areas_.push(event); }
  // Whether the daemon that is connected has said that it does this (wire::feature_…).
  bool has_feature(std::uint64_t feature) const noexcept {
    return connected() && (features_ & feature) == feature;
  }
  // Hands what was learned of a period to the daemon. `fd`: the sealed memfd, which stays the caller's. 0;
  // EAGAIN: the daemon does not read at present; ENOTCONN; or the errno of sendmsg. Never waits.
  int send_period(std::uint32_t phase, std::uint64_t hash, std::uint64_t image_bytes, int fd) noexcept;
  // One line for the daemon's log; dropped while disconnected or when the daemon does not read.
  void log(wire::Severity severity, const char* text) noexcept;

  // In a forked child, before any other call: forgets the session without a word to the daemon. The pool
  // descriptor stays open (the child reads what was stored before the fork), the rest is closed.
  void after_fork_in_child() noexcept;
  // After that, where the parent had made no use of its grant yet: the child starts like any process, with a
  // pool of its own.
  void forget_grant() noexcept;

 private:
  enum class State { idle, disconnected, greeting, connected };

  // Descriptors that came with a packet; whatever is not taken is closed.
  struct Descriptors {
    int fds[wire::max_fds] = {-1, -1, -1};
    std::size_t count = 0;
    int take(std::size_t index, Descriptor kind = Descriptor::vital) noexcept;
    void close_rest() noexcept;
  };

  int copy_config(const ClientConfig& config) noexcept;
  int connect_before(std::uint64_t deadline_ns) noexcept;
  int connect_socket() noexcept;
  int send_hello() noexcept;
  int await_welcome(std::uint64_t deadline_ns) noexcept;
  int read_message(Notice* notice) noexcept;
  int receive(std::size_t* bytes, Descriptors* descriptors) noexcept;
  int dispatch(wire::Type type, Descriptors* descriptors, Notice* notice) noexcept;
  int accept_welcome(Descriptors* descriptors) noexcept;
  int accept_refusal() noexcept;
  void accept_budget(Notice* notice) noexcept;
  int accept_tiers(Descriptors* descriptors) noexcept;
  void accept_nvm_limit(Notice* notice) noexcept;
  void accept_writes(Notice* notice) noexcept;
  int accept_schedule(Descriptors* descriptors, Notice* notice) noexcept;
  void drop_plan() noexcept;
  Notice step_disconnected(std::uint64_t now_ns) noexcept;
  void tell_nvm() noexcept;
  Notice step_greeting(std::uint64_t now_ns) noexcept;
  Notice step_connected(std::uint64_t now_ns) noexcept;
  void close_socket() noexcept;

  Areas areas_;
  DaemonStarter starter_;
  alignas(16) std::byte packet_[1024] = {};  // the longest message to a job, and then some

  State state_ = State::idle;
  int socket_ = -1;
  bool was_welcomed_ = false;
  bool refused_ = false;  // by the daemon greeted last
  std::uint64_t next_attempt_ns_ = 0;
  std::uint64_t deadline_ns_ = 0;
  Grant grant_;
  std::uint64_t features_ = 0;  // of the daemon
  SentPlan plan_;
  char socket_path_[108] = {};
  char job_[wire::name_bytes] = {};
  char program_[wire::name_bytes] = {};
  bool respawn_ = false;
  bool is_engine_ = false;
  std::uint64_t gpu_bytes_ = 0;
  bool wants_tiers_ = false;
  bool awaits_tiers_ = false;  // the welcome said that they follow
  std::uint64_t requested_budget_bytes_ = 0;
  std::uint64_t pool_wanted_bytes_ = 0;
  std::uint16_t weight_ = 0;
  char refused_text_[wire::text_bytes] = {};
};

}  // namespace terrace::liballoc
