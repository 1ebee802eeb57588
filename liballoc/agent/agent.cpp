#include "liballoc/agent/agent.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "liballoc/heap/heap.h"
#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/own_descriptors.h"
#include "tiers/high_descriptor.h"
#include "tiers/pool_file.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t tick_ns = 100'000'000;
constexpr std::uint64_t set_up_limit_ns = 4'000'000'000;
constexpr std::uint64_t follow_tick_ns = 10'000'000;
constexpr std::size_t stack_bytes = std::size_t{256} * 1024;
constexpr std::size_t fixed_descriptors = 4;
constexpr std::uint64_t default_pool_most = 64ULL << 30;

const char* program_name() { return program_invocation_short_name; }

wire::Mover wire_mover(MoverKind kind) {
  switch (kind) {
    case MoverKind::move:
      return wire::Mover::move;
    case MoverKind::mremap:
      return wire::Mover::mremap;
    case MoverKind::automatic:
      break;
  }
  return wire::Mover::none;
}

std::uint32_t granules_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / granule_bytes, ~0U));
}

wire::Pager wire_pager(const char* state) {
  if (std::strcmp(state, "active") == 0) return wire::Pager::active;
  return std::strcmp(state, "unavailable") == 0 ? wire::Pager::unavailable : wire::Pager::inactive;
}

}  // namespace

// ---- life -----------------------------------------------------------------------------------------------

void Agent::start_if_wanted(Heap* heap) {
  if (started_.load(std::memory_order_acquire) == ready) return;
  std::uint32_t expected = untouched;
  if (!started_.compare_exchange_strong(expected, starting)) return await_set_up();
  const Options& o = heap->options();
  if (o.dram_bytes == 0 && o.socket[0] == '\0') return set_up_done();
  heap_ = heap;
  if (!open_kick() || !create_thread()) {
    give_up("the agent thread cannot be started");
    return set_up_done();
  }
  await_set_up();
}

bool Agent::open_kick() {
  int ends[2];
  if (syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  kick_read_fd_ = keep_descriptor(ends[0]);
  kick_write_fd_ = keep_descriptor(ends[1]);
  process_ = syscall(SYS_getpid);
  return true;
}

void Agent::close_kick() {
  close_kept(kick_read_fd_);
  close_kept(kick_write_fd_);
  kick_read_fd_ = kick_write_fd_ = -1;
}

void Agent::set_up_done() {
  started_.store(ready, std::memory_order_release);
  os::futex_wake(reinterpret_cast<const std::uint32_t*>(&started_), 1 << 30);
}

// The first large allocations wait until it is known whether there is a pager, so that memory under a budget
// is counted from the first byte. Bounded: a daemon that does not answer holds the program up for 2 s, once.
void Agent::await_set_up() {
  const std::uint64_t deadline = os::now_ns() + set_up_limit_ns;
  while (started_.load(std::memory_order_acquire) == starting) {
    os::futex_wait_for(reinterpret_cast<const std::uint32_t*>(&started_), starting, tick_ns);
    // Late: nobody waits for it any more, the pager takes over whenever it comes.
    if (os::now_ns() >= deadline) set_up_done();
  }
}

// All signals are the program's business: the thread is born with every one blocked.
bool Agent::create_thread() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, &Agent::thread_main, this);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void* Agent::thread_main(void* self) {
  auto* agent = static_cast<Agent*>(self);
  syscall(SYS_prctl, PR_SET_NAME, "terrace-agent", 0, 0, 0);
  if (!agent->restoring_) {
    agent->set_up();
    agent->set_up_done();
  }
  agent->run();
  return nullptr;
}

void Agent::give_up(const char* reason) {
  state_ = "unavailable";
  reason_ = reason;
  Message(Severity::warning) << reason << "; the program runs on plain memory";
}

void Agent::set_up() {
  granted_bytes_ = heap_->options().dram_bytes;
  connect();
  GateKeeper gate(heap_->gate());
  is_set_up_ = true;
  if (granted_bytes_ == 0 || state_[0] == 'u') return;
  if (!open_mover() || !open_tier()) return;
  const Options& o = heap_->options();
  if (o.limit_cgroup[0] != '\0') {
    if (const int error = follower_.open(o.limit_cgroup); error != 0) {
      Message m(Severity::warning);
      m << "TERRACE_LIMIT_CGROUP=" << o.limit_cgroup << ": not a readable memory cgroup, ";
      m.error(error) << "; the budget does not follow it";
    }
  }
  if (const int error = heap_->pager().activate(&mover_, tier_, &client_, granted_bytes_, o.compression);
      error != 0) {
    mover_.close();
    return give_up("no address space for the pager");
  }
  if (pool_is_granted_) heap_->pager().set_pool_limit(client_.grant().pool_limit_bytes);
  high_water_.open();
  high_water_.set_budget(heap_->pager().budget_bytes());
  heap_->wake_at(granules_of(high_water_.mark_bytes()));
  state_ = "active";
  reason_ = "";
}

// Memory has become short: from here on it is the agent that backs it.
void Agent::begin_paging() {
  Pager& pager = heap_->pager();
  heap_->begin_recording();
  pager.follow_blocks();
  if (pager.watch() == 0) {
    heap_->tell_top();
    pager.take_over();
    return high_water_.close();
  }
  heap_->end_recording();
  mover_.close();  // it may watch a part of the heap, which nobody will serve
  give_up("userfaultfd refuses the heap's range");
}

bool Agent::ensure_paging() {
  if (heap_ == nullptr) return false;
  const auto is_dormant = [this] {
    InsideGate gate(*heap_);
    return heap_->pager().mode() == Pager::Mode::dormant;
  };
  while (is_dormant()) {
    wanted_.store(1);
    kick();
    os::futex_wait_for(reinterpret_cast<const std::uint32_t*>(&wanted_), 1, tick_ns);
  }
  InsideGate gate(*heap_);
  return heap_->pager().is_paging();
}

// While the pager is dormant.
void Agent::look_at_memory(std::uint64_t now_ns) {
  Pager& pager = heap_->pager();
  const std::uint64_t spread = std::uint64_t{heap_->spread_granules()} * granule_bytes;
  high_water_.set_budget(pager.budget_bytes());
  std::byte* const top = pager.run_address(0) + std::uint64_t{heap_->space().top()} * granule_bytes;
  const bool is_short = high_water_.is_reached(spread, pager.run_address(0), top);
  if (is_short || wanted_.load() != 0) {
    begin_paging();
    wanted_.store(0);
    os::futex_wake(reinterpret_cast<const std::uint32_t*>(&wanted_), 1 << 30);
    return;
  }
  if (spread <= high_water_.mark_bytes()) heap_->wake_at(granules_of(high_water_.mark_bytes()));
  if (now_ns >= next_publish_ns_) pager.estimate_resident(high_water_.estimate(spread));
}

// The daemon's word replaces the environment's: it knows what other jobs were granted.
void Agent::connect() {
  const Options& o = heap_->options();
  if (o.socket[0] == '\0') return;
  uses_daemon_ = true;
  const ClientConfig config{
      .socket_path = o.socket,
      .job = o.job[0] != '\0' ? o.job : program_name(),
      .program = program_name(),
      .requested_budget_bytes = o.dram_bytes,
      .pool_wanted_bytes = o.pool_bytes != 0 ? o.pool_bytes : wire::any_bytes,
      .daemon_path = o.daemon,
      .respawn = o.daemon[0] != '\0',
  };
  const int error = client_.start(config);
  if (error == 0) {
    granted_bytes_ = client_.grant().budget_bytes;
    return;
  }
  if (client_.refused_text()[0] != '\0') {
    state_ = "unavailable";
    reason_ = "the daemon refused the budget";
    Message(Severity::error) << "the daemon refused: " << client_.refused_text()
                             << "; the program runs on plain memory";
    return;
  }
  Message m(Severity::warning);
  m << "no daemon at " << o.socket << ", ";
  m.error(error) << "; going on without it";
}

bool Agent::open_mover() {
  // Kept for forked children, whose client forgets the daemon's descriptors.
  if (client_.grant().uffd_device_fd >= 0) {
    device_fd_ = keep_descriptor(
        static_cast<int>(syscall(SYS_fcntl, client_.grant().uffd_device_fd, F_DUPFD_CLOEXEC, 3)));
  }
  const int error = mover_.open(heap_->options().mover, device_fd_);
  if (error == 0) return true;
  if (error == EPERM || error == EACCES) {
    give_up("userfaultfd is not permitted (allow /dev/userfaultfd to this user's group, or run terraced)");
  } else if (error == ENOTSUP) {
    give_up("this kernel cannot move pages in the way TERRACE_MOVER asks for");
  } else {
    give_up("this kernel has no usable userfaultfd");
  }
  return false;
}

std::uint64_t Agent::default_pool_bytes(int fd) const {
  struct statvfs fs {};
  if (fstatvfs(fd, &fs) != 0) return default_pool_most;
  const std::uint64_t free_bytes = std::uint64_t{fs.f_bavail} * fs.f_frsize;
  return std::min(default_pool_most, free_bytes / 5 * 4);
}

// The daemon's file where it granted one, else our own, of which the daemon then knows nothing.
int Agent::open_pool_file(int* fd) {
  const Grant& grant = client_.grant();
  pool_is_granted_ = grant.pool_fd >= 0 && grant.pool_capacity_bytes >= run_bytes;
  if (pool_is_granted_) {
    *fd = static_cast<int>(syscall(SYS_fcntl, grant.pool_fd, F_DUPFD_CLOEXEC, 3));
    pool_bytes_ = grant.pool_capacity_bytes;
    return *fd >= 0 ? 0 : errno;
  }
  client_.use_no_pool();
  const char* directory = heap_->options().pool_directory;
  if (client_.connected()) {
    Message(Severity::warning)
        << "the daemon grants no pool (its log says why): what does not fit in DRAM goes to a "
           "file of this process in "
        << directory << ", which the daemon's [pool] size does not count";
  }
  return tiers::open_pool_file(directory, fd);
}

bool Agent::pool_unusable(int error) {
  state_ = "unavailable";
  reason_ = "the pool file cannot be used";
  Message m(Severity::warning);
  m << reason_ << ", ";
  m.error(error) << "; the program runs on plain memory";
  return false;
}

bool Agent::open_tier() {
  const Options& o = heap_->options();
  int fd = -1;
  if (const int error = open_pool_file(&fd); error != 0) {
    if (pool_is_granted_) return pool_unusable(error);
    Message m(Severity::warning);
    m << "TERRACE_POOL_DIR=" << o.pool_directory << ": no pool file can be made there, ";
    m.error(error) << "; the program runs on plain memory";
    state_ = "unavailable";
    reason_ = "no pool file can be made in TERRACE_POOL_DIR";
    return false;
  }
  if (pool_bytes_ == 0) pool_bytes_ = o.pool_bytes != 0 ? o.pool_bytes : default_pool_bytes(fd);
  pool_bytes_ = std::min(pool_bytes_, tiers::ExtentAllocator::max_capacity_bytes) / run_bytes * run_bytes;
  if (pool_bytes_ == 0) {  // the disk is full
    os::close_fd(fd);
    return pool_unusable(ENOSPC);
  }
  fd = tiers::move_to_high_number(fd);
  const tiers::NvmeTier::Options options{.capacity_bytes = pool_bytes_,
                                         .io = static_cast<tiers::NvmeTier::Io>(o.io)};
  if (const int error = nvme_.open(fd, options); error != 0) {
    os::close_fd(fd);
    if (o.io != IoKind::io_uring) return pool_unusable(error);
    give_up("io_uring is not available, and TERRACE_IO insists on it");
    return false;
  }
  note_descriptor(fd);
  note_descriptor(nvme_.wait_fd());
  if (std::strcmp(nvme_.io(), "io_uring") != 0 && o.io == IoKind::automatic) {
    Message(Severity::warning)
        << "io_uring is not available here: the pool is read and written with pread and pwrite";
  }
  tier_ = injection_.wrap(&nvme_, o.fault);
  if (tier_ != nullptr) {
    if (tier_->wait_fd() != nvme_.wait_fd()) note_descriptor(tier_->wait_fd());
    return true;
  }
  state_ = "unavailable";
  reason_ = "TERRACE_FAULT is not understood";
  Message(Severity::error) << "TERRACE_FAULT=" << o.fault << " is not understood ("
                           << FaultInjection::accepted << "); the program runs on plain memory";
  return false;
}

// ---- the loop -------------------------------------------------------------------------------------------

void Agent::run() {
  for (;;) {
    asleep_.store(1);
    wait(kicked_.exchange(0) != 0 || is_busy() ? 0 : timeout_ms());
    asleep_.store(0);
    check_descriptors();
    GateKeeper gate(heap_->gate());
    round();
  }
}

// A thread that waited for a page touches the next one soon, and a page that was asked for comes soon: to
// fall asleep and be woken takes as long. Its processor is the one that the waiting thread does not use.
bool Agent::is_busy() const {
  constexpr std::uint64_t soon_ns = 60'000;
  return heap_->pager().is_paging() && os::now_ns() - last_fault_ns_ < soon_ns;
}

int Agent::timeout_ms() const {
  if (heap_->pager().mode() == Pager::Mode::dormant)
    return static_cast<int>(
        std::clamp<std::uint64_t>(high_water_.pause_ns() / 1'000'000, 1, follower_.is_open() ? 10 : 100));
  return follower_.is_open() ? 10 : 100;
}

void Agent::wait(int timeout_ms) {
  pollfd fds[fixed_descriptors + ForkLedger::most_children];
  int children[ForkLedger::most_children];
  nfds_t n = 0;
  for (const int fd :
       {kick_read_fd_, mover_.fd(), tier_ != nullptr ? tier_->wait_fd() : -1, client_.wait_fd()}) {
    fds[n++] = {.fd = fd, .events = POLLIN, .revents = 0};
  }
  const std::size_t watched = heap_->pager().forks().watched(children, ForkLedger::most_children);
  for (std::size_t i = 0; i < watched; ++i) fds[n++] = {.fd = children[i], .events = 0, .revents = 0};
  const timespec limit{timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  syscall(SYS_ppoll, fds, n, &limit, nullptr, 0);
  if ((fds[0].revents & POLLIN) != 0 && is_intact(kick_read_fd_)) {
    char kicks[64];
    const long got = syscall(SYS_read, kick_read_fd_, kicks, sizeof(kicks));
    static_cast<void>(got);
  }
  gone_children_ = 0;
  for (std::size_t i = fixed_descriptors; i < n; ++i) {
    if (fds[i].revents != 0) gone_[gone_children_++] = fds[i].fd;
  }
}

// What the program closed by a bare system call. The userfaultfd is looked at each time before faults are
// served: once it is gone, an evicted page reads as zeroes.
void Agent::check_descriptors() {
  if (mover_.fd() >= 0 && !is_intact(mover_.fd())) descriptor_lost(mover_.fd());
  const std::uint64_t now = os::now_ns();
  if (now < next_check_ns_) return;
  next_check_ns_ = now + tick_ns;
  if (const int fd = first_lost_descriptor(); fd >= 0) descriptor_lost(fd);
}

// Without a pager nothing is lost. A child that shares our memory (vfork) has a table of its own, which it
// may empty.
void Agent::descriptor_lost(int fd) {
  if (syscall(SYS_getpid) != process_) return;
  if (!heap_->pager().is_paging()) return close_kick();
  Message(Severity::error)
      << "descriptor " << static_cast<std::uint64_t>(fd)
      << ", which memory outside DRAM is reached through, was closed by a bare system call: "
         "ending the program before it reads wrong data (close(), close_range() and "
         "closefrom() pass it by)";
  std::abort();
}

void Agent::round() {
  const std::uint64_t now = os::now_ns();
  reap_children();
  if (uses_daemon_) follow_daemon(now);
  if (follower_.is_open() && now >= next_tick_ns_) follow_budget(now);
  if (heap_->pager().mode() == Pager::Mode::dormant) look_at_memory(now);
  if (tier_ != nullptr && heap_->pager().is_paging()) {
    for (bool progress = true; progress && !heap_->gate().somebody_waits();) {
      serve_faults();
      heap_->pager().handle_completions();
      progress = heap_->pager().balance();
      if (follower_.is_open() && os::now_ns() >= next_tick_ns_) follow_budget(os::now_ns());
    }
  }
#ifdef TERRACE_CHECK_INVARIANTS
  {
    LockGuard lock(heap_->lock());
    heap_->space().check_invariants();
  }
  { heap_->pager().check_invariants(); }
#endif
  if (now >= next_publish_ns_) publish(now);
}

void Agent::serve_faults() {
  Fault fault{};
  while (!heap_->gate().somebody_waits() && heap_->pager().can_take_fault() && mover_.next_fault(&fault)) {
    // A limit that falls while a storm of faults is served is not outrun by it.
    if (follower_.is_open() && os::now_ns() >= next_tick_ns_) follow_budget(os::now_ns());
    heap_->pager().handle_fault(fault);
    last_fault_ns_ = os::now_ns();
  }
}

void Agent::reap_children() {
  if (gone_children_ == 0) return;
  for (std::size_t i = 0; i < gone_children_; ++i) heap_->pager().forks().child_gone(gone_[i]);
  gone_children_ = 0;
  heap_->pager().release_unread_extents();
}

// The daemon asks for memory that nobody uses.
void Agent::trim() {
  if (heap_->pager().is_paging())
    heap_->pager().trim(0);
  else
    heap_->trim_dormant();
}

void Agent::follow_daemon(std::uint64_t now_ns) {
  for (;;) {
    switch (client_.step(now_ns)) {
      case Notice::none:
        return;
      case Notice::budget_changed:
      case Notice::reconnected:
        granted_bytes_ = client_.grant().budget_bytes;
        break;
      case Notice::trim:
        trim();
        continue;
      case Notice::disconnected:
        continue;
    }
    if (heap_->pager().mode() != Pager::Mode::paging && heap_->pager().mode() != Pager::Mode::dormant)
      continue;
    if (pool_is_granted_) heap_->pager().set_pool_limit(client_.grant().pool_limit_bytes);
    if (!follower_.is_open()) heap_->pager().set_budget(granted_bytes_);
  }
}

void Agent::follow_budget(std::uint64_t now_ns) {
  next_tick_ns_ = now_ns + follow_tick_ns;
  Pager& pager = heap_->pager();
  const bool is_dormant = pager.mode() == Pager::Mode::dormant;
  if (!is_dormant && pager.mode() != Pager::Mode::paging) return;
  const std::uint64_t spread = std::uint64_t{heap_->spread_granules()} * granule_bytes;
  const std::uint64_t held = is_dormant ? high_water_.estimate(spread) : pager.backed_bytes();
  pager.set_budget(follower_.budget(held, granted_bytes_));
}

void Agent::publish(std::uint64_t now_ns) {
  next_publish_ns_ = now_ns + tick_ns;
  if (!uses_daemon_) return;
  terrace_statistics s{};
  s.size = sizeof(s);
  heap_->fill_statistics(&s);
  wire::JobStats& out = *client_.stats();
  // Both lists are in the same order (wire/segment.h): one word per counter, the codecs' behind the session's
  // state.
  const auto* words = reinterpret_cast<const std::uint64_t*>(&s) + 1;
  constexpr std::size_t counters = offsetof(terrace_statistics, codecs) / sizeof(std::uint64_t) - 1;
  constexpr std::size_t codec_counters = TERRACE_CODECS * sizeof(terrace_codec_statistics) / 8;
  constexpr auto first = static_cast<std::size_t>(wire::first_codec_stat);
  static_assert(counters == static_cast<std::size_t>(wire::Stat::pool_used_bytes));
  static_assert(first + codec_counters == wire::stat_count);
  for (std::size_t i = 0; i < counters; ++i) out.set(static_cast<wire::Stat>(i), words[i]);
  for (std::size_t i = 0; i < codec_counters; ++i)
    out.set(static_cast<wire::Stat>(first + i), words[counters + i]);
  out.set(wire::Stat::pool_used_bytes, heap_->pager().pool_used_bytes());
  out.set(wire::Stat::heartbeat_ns, now_ns);
  out.set_state(wire::Stat::phase, wire::Phase::running);
  out.set_state(wire::Stat::pager, wire_pager(state_));
  out.set_state(wire::Stat::mover, wire_mover(mover_.kind()));
  out.set_state(wire::Stat::io, tier_ == nullptr                            ? wire::Io::none
                                : std::strcmp(tier_->io(), "io_uring") == 0 ? wire::Io::io_uring
                                                                            : wire::Io::pread);
  if (!follower_.is_open()) return;
  out.set(wire::Stat::cgroup_usage_bytes, follower_.usage_bytes());
  out.set(wire::Stat::cgroup_limit_bytes, follower_.limit_bytes());
}

void Agent::kick() {
  kicked_.store(1);
  if (asleep_.exchange(0) == 0) return;
  if (!is_intact(kick_write_fd_)) return descriptor_lost(kick_write_fd_);
  const char one = 1;
  const long written = syscall(SYS_write, kick_write_fd_, &one, sizeof(one));
  static_cast<void>(written);  // EAGAIN: it is awake already
}

// ---- fork -----------------------------------------------------------------------------------------------

void Agent::reset_in_child() {
  asleep_.store(0);
  wanted_.store(0);
  high_water_.close();
  client_.after_fork_in_child();
  mover_.close();
  follower_.close();
  close_kick();
  forget_descriptor(nvme_.wait_fd());  // the tier closes it when it is reopened
  if (tier_ != nullptr) forget_descriptor(tier_->wait_fd());
  uses_daemon_ = false;
  gone_children_ = 0;
  if (started_.load() != ready && !is_set_up_) return start_anew_in_child();
  started_.store(ready);
  state_ = "inactive";
  reason_ = "a forked child keeps its own pages resident";
}

// A parent that had set nothing up yet (set_up() keeps the gate but for connecting, and the fork held the
// gate) leaves nothing behind but what the daemon may have granted it, its pool file above all. Such a child
// starts like any process, with its first large allocation.
void Agent::start_anew_in_child() {
  client_.forget_grant();
  granted_bytes_ = 0;
  state_ = "inactive";
  reason_ = not_asked_for;
  started_.store(untouched);
}

bool Agent::restart_in_child(Heap* heap) {
  restoring_ = true;
  reason_ = start_serving_in_child(heap);
  state_ = reason_[0] == '\0' ? "active" : "unavailable";
  if (reason_[0] == '\0') return true;
  mover_.close();  // with nobody to serve it, whoever touches memory that it watches would wait for ever
  close_kick();
  return false;
}

// What is in the way, if anything.
const char* Agent::start_serving_in_child(Heap* heap) {
  if (!open_kick()) return "no pipe can be opened there (ulimit -n?)";
  if (mover_.open(heap->options().mover, device_fd_) != 0) return "no userfaultfd can be opened there";
  if (heap->pager().start_restoring(&mover_) != 0)
    return "the pool cannot be opened there, or memory is short";
  note_descriptor(tier_->wait_fd());
  return create_thread() ? "" : "no thread can be started there (ulimit -u, pids.max?)";
}

}  // namespace terrace::liballoc
