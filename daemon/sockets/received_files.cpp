// See received_files.h.
#include "daemon/sockets/received_files.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

namespace terrace::daemon {
namespace {

// The one descriptor of the next packet; the kernel closes all that there is no room for, here and now.
UniqueFd receive_descriptor(int socket) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_control = control;
  header.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE has room for two
  if (::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return UniqueFd();
  const cmsghdr* item = CMSG_FIRSTHDR(&header);
  if (item == nullptr || item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) return UniqueFd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
  UniqueFd received(fd);
  if ((header.msg_flags & MSG_CTRUNC) != 0) received.reset();
  return received;
}

}  // namespace

struct ReceivedFiles::State {
  struct Task {
    UniqueFd socket;
    std::uint64_t ticket = 0;        // 0: only to be closed
    std::uint64_t period_bytes = 0;  // 0: a pool file is expected
  };
  // One user's. Whoever serves it goes on until it is empty.
  struct Queue {
    std::deque<Task> tasks;
    std::size_t closing = 0;  // queued or in work
    bool served = false;
  };

  mutable std::mutex mutex;
  std::map<uid_t, Queue> queues;  // empty ones are erased
  std::vector<Result> results;
  std::size_t threads = 0;
  std::size_t pending = 0;
  UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  void add(const std::shared_ptr<State>& self, uid_t uid, Task task);
  void work();
  void serve(uid_t uid, Queue& queue, std::unique_lock<std::mutex>& lock);
  static Result look(uid_t uid, const Task& task, UniqueFd* received);
  void report(Result result);
  void start_thread(const std::shared_ptr<State>& self);
};

void ReceivedFiles::State::add(const std::shared_ptr<State>& self, uid_t uid, Task task) {
  const std::lock_guard lock(mutex);
  Queue& queue = queues[uid];
  queue.closing += task.ticket == 0 ? 1 : 0;
  queue.tasks.push_back(std::move(task));
  ++pending;
  if (!queue.served && threads < max_threads) start_thread(self);
}

// Without a thread the task waits for the next one.
void ReceivedFiles::State::start_thread(const std::shared_ptr<State>& self) try {
  ++threads;
  std::thread([self] { self->work(); }).detach();
} catch (const std::system_error&) {
  --threads;
}

void ReceivedFiles::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    const auto next =
        std::find_if(queues.begin(), queues.end(), [](const auto& entry) { return !entry.second.served; });
    if (next == queues.end()) break;
    next->second.served = true;
    serve(next->first, next->second, lock);
    queues.erase(next);
  }
  --threads;
}

void ReceivedFiles::State::serve(uid_t uid, Queue& queue, std::unique_lock<std::mutex>& lock) {
  while (!queue.tasks.empty()) {
    Task task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    lock.unlock();
    UniqueFd received;  // closed behind the report: that may take any time
    if (task.ticket != 0) {
      received = receive_descriptor(task.socket.get());
      report(look(uid, task, &received));
    }
    received.reset();
    task.socket.reset();
    lock.lock();
    queue.closing -= task.ticket == 0 ? 1 : 0;
    --pending;
  }
}

// Takes what goes on with the result.
ReceivedFiles::Result ReceivedFiles::State::look(uid_t uid, const Task& task, UniqueFd* received) {
  Result result{task.ticket, uid, std::nullopt, {}};
  if (task.period_bytes != 0) {
    result.period = look_at_period_file(received, task.period_bytes);
    return result;
  }
  result.file = look_at_pool_file(received->get());
  if (result.file) result.file->descriptor = std::make_shared<UniqueFd>(std::move(*received));
  return result;
}

void ReceivedFiles::State::report(Result result) {
  const std::lock_guard lock(mutex);
  results.push_back(std::move(result));
  const std::uint64_t one = 1;
  if (::write(event.get(), &one, sizeof one) < 0) {
    // Full: it is readable already.
  }
}

ReceivedFiles::ReceivedFiles() : state_(std::make_shared<State>()) {}
ReceivedFiles::~ReceivedFiles() = default;

void ReceivedFiles::inspect(std::uint64_t ticket, uid_t uid, UniqueFd socket) {
  state_->add(state_, uid, {std::move(socket), ticket, 0});
}

void ReceivedFiles::inspect_period(std::uint64_t ticket, uid_t uid, UniqueFd socket,
                                   std::uint64_t image_bytes) {
  state_->add(state_, uid, {std::move(socket), ticket, image_bytes});
}

void ReceivedFiles::close(uid_t uid, UniqueFd descriptor) {
  state_->add(state_, uid, {std::move(descriptor), 0, 0});
}

void ReceivedFiles::give_back(uid_t uid, std::optional<PoolFile> file) {
  if (file && file->descriptor.use_count() == 1) close(uid, std::move(*file->descriptor));
}

int ReceivedFiles::event_fd() const { return state_->event.get(); }

std::vector<ReceivedFiles::Result> ReceivedFiles::results() {
  const std::lock_guard lock(state_->mutex);
  std::uint64_t count = 0;
  if (::read(state_->event.get(), &count, sizeof count) < 0) {
    // Nothing was reported since.
  }
  return std::exchange(state_->results, {});
}

std::size_t ReceivedFiles::pending() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pending;
}

std::size_t ReceivedFiles::closing_of(uid_t uid) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->queues.find(uid);
  return found == state_->queues.end() ? 0 : found->second.closing;
}

// With SO_PASSCRED every packet comes with its sender's credentials, which tells one of no bytes from the
// end. There is no room for more, so that MSG_CTRUNC means descriptors.
bool has_queued_files(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr header{};
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || header.msg_controllen == 0) return false;
    if ((header.msg_flags & MSG_CTRUNC) != 0) return true;
    ::recv(socket, nullptr, 0, MSG_DONTWAIT);
  }
}

}  // namespace terrace::daemon
