#include "tests/daemon/scale/planned.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "tests/daemon/planning/made_periods.h"

namespace terrace::tests::scale {
namespace {

constexpr std::uint64_t period_hash = 0xfeedbeefcafe;  // of PeriodMaker's drafts
constexpr int plan_patience_ms = 10'000;
constexpr useconds_t period_us = 1'010'000;
constexpr useconds_t rest_us = 50'000;

// Weights, activations, gradients and moments: four objects a layer. Half of what lives at once fits.
std::string made_image(const char* policy) {
  TrainingShape shape;
  shape.layers = PlannedSessions::objects / 4;
  shape.activation_bytes = std::uint64_t{4} << 20;
  shape.weight_bytes = std::uint64_t{2} << 20;
  shape.layer_ns = 1'000'000;
  const std::uint64_t peak = shape.layers * (shape.activation_bytes + shape.weight_bytes);
  return image_of(training_step(shape).draft(peak / 2, policy, 4'000'000'000));
}

Fd sealed_copy(const std::string& image) {
  Fd fd(::memfd_create("period", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool written = ::write(fd.get(), image.data(), image.size()) == static_cast<ssize_t>(image.size());
  const bool sealed = ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  return written && sealed ? std::move(fd) : Fd();
}

void pass_over(const Joined& session) {
  char packet[4096];
  while (::recv(session.socket.get(), packet, sizeof packet, MSG_DONTWAIT) > 0) continue;
}

}  // namespace

PlannedSessions::PlannedSessions(const char* policy) : image_(made_image(policy)) {}

std::string PlannedSessions::join_all(const std::string& socket, uid_t first_user, std::size_t count) {
  // Without a pool of the daemon's, which would bound what may move.
  for (std::size_t i = 0; i < count; ++i) {
    auto joined = join(socket, first_user + static_cast<uid_t>(i), "planned" + std::to_string(i), false, 0);
    if (!joined) return "a session that sends periods was not let in";
    sessions_.push_back(std::move(*joined));
  }
  return {};
}

bool PlannedSessions::send_period(const Joined& session) const {
  const Fd file = sealed_copy(image_);
  wire::Period message = wire::make<wire::Period>();
  message.phase = 1;
  message.period_hash = period_hash;
  message.image_bytes = image_.size();
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  return file && ::sendmsg(session.socket.get(), &header, MSG_NOSIGNAL) >= 0;
}

// Passes over what else is said. No room for the descriptor: the kernel closes it.
bool PlannedSessions::receive_plan(const Joined& session) {
  for (;;) {
    pollfd waiting{session.socket.get(), POLLIN, 0};
    if (::poll(&waiting, 1, plan_patience_ms) <= 0) return false;
    alignas(16) char packet[4096];
    const ssize_t got = ::recv(session.socket.get(), packet, sizeof packet, 0);
    wire::Header head;
    if (got <= 0 || wire::check_packet(packet, static_cast<std::size_t>(got), &head) != 0) return false;
    if (head.type != wire::Type::schedule) continue;
    const auto plan = wire::read_as<wire::PlannedSchedule>(packet);
    if (plan.image_bytes == 0) refusal_ = plan.text;
    plans_ += plan.image_bytes != 0 ? 1 : 0;
    return plan.image_bytes != 0;
  }
}

std::uint64_t PlannedSessions::plan_once(std::size_t session) {
  const std::uint64_t began = clock_ns();
  if (!send_period(sessions_[session]) || !receive_plan(sessions_[session])) return 0;
  return clock_ns() - began;
}

// Whoever leaves hundreds of budgets unread is disconnected.
void PlannedSessions::rest() {
  thread_ = std::thread([this] {
    while (!stopping_) {
      for (const Joined& session : sessions_) pass_over(session);
      ::usleep(rest_us);
    }
  });
}

void PlannedSessions::keep_planning() {
  thread_ = std::thread([this] {
    while (!stopping_) {
      const std::uint64_t began = clock_ns();
      for (const Joined& session : sessions_) send_period(session);
      for (const Joined& session : sessions_) receive_plan(session);
      const std::uint64_t took_us = (clock_ns() - began) / 1000;
      if (took_us < period_us) ::usleep(static_cast<useconds_t>(period_us - took_us));
    }
  });
}

void PlannedSessions::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  stopping_ = false;
}

}  // namespace terrace::tests::scale
