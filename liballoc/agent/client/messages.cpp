// What the daemon sends: one packet at a time, judged by wire::check_packet(), its
// descriptors taken or closed.
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "liballoc/agent/client/client.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
int Client::Descriptors::take(std::size_t index, Descriptor kind) noexcept {
  if (index >= count || fds[index] < 0) return -1;
  const int fd = fds[index];
  fds[index] = -1;
  return keep_descriptor(fd, kind);
}

void Client::Descriptors::close_rest() noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (fds[i] >= 0) ::close(fds[i]);
  }
  count = 0;
}

// One message: 0; EAGAIN when there is none; anything else means that this daemon is no use any more.
int Client::read_message(Notice* notice) noexcept {
  std::size_t bytes = 0;
  Descriptors descriptors;
  int error = receive(&bytes, &descriptors);
  if (error == 0) {
    wire::Header header;
    error = wire::check_packet(packet_, bytes, &header);
    if (error == 0) error = dispatch(header.type, &descriptors, notice);
  }
  descriptors.close_rest();
  return error;
}

int Client::receive(std::size_t* bytes, Descriptors* descriptors) noexcept {
  iovec part{packet_, sizeof packet_};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::max_fds)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EINTR ? EAGAIN : errno;
  if (got == 0) return ECONNRESET;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count && descriptors->count < wire::max_fds; ++i)
      std::memcpy(&descriptors->fds[descriptors->count++], CMSG_DATA(item) + i * sizeof(int), sizeof(int));
  }
  *bytes = static_cast<std::size_t>(got);
  return (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? EBADMSG : 0;
}

int Client::dispatch(wire::Type type, Descriptors* descriptors, Notice* notice) noexcept {
  if (state_ == State::greeting) {
    if (awaits_tiers_) return type == wire::Type::tiers ? accept_tiers(descriptors) : EBADMSG;
    if (type == wire::Type::welcome) return accept_welcome(descriptors);
    if (type == wire::Type::refused) return accept_refusal();
    return EBADMSG;
  }
  if (type == wire::Type::trim)
    *notice = Notice::trim;
  else if (type == wire::Type::budget)
    accept_budget(notice);
  else if (type == wire::Type::writes)
    accept_writes(notice);
  else if (type == wire::Type::tiers)
    accept_nvm_limit(notice);
  else if (type == wire::Type::schedule)
    return accept_schedule(descriptors, notice);
  else
    return EBADMSG;
  return 0;
}

int Client::accept_welcome(Descriptors* descriptors) noexcept {
  const auto welcome = wire::read_as<wire::Welcome>(packet_);
  std::size_t next = 0;
  if ((welcome.flags & wire::welcome_segment_fd) == 0 || descriptors->count == 0) return EBADMSG;
  if (const int error = areas_.use_segment(welcome, descriptors->fds[next++]); error != 0) return error;
  if ((welcome.flags & wire::welcome_pool_fd) != 0 && grant_.pool_fd < 0) {
    grant_.pool_fd = descriptors->take(next);
    grant_.pool_capacity_bytes = welcome.pool_capacity_bytes;
  }
  if ((welcome.flags & wire::welcome_pool_fd) != 0) ++next;
  if ((welcome.flags & wire::welcome_uffd_fd) != 0 && grant_.uffd_device_fd < 0)
    grant_.uffd_device_fd = descriptors->take(next);
  grant_.encrypts_pools = (welcome.flags & wire::welcome_encrypts) != 0;
  grant_.budget_bytes = welcome.budget_bytes;
  grant_.pool_limit_bytes = welcome.pool_limit_bytes;
  grant_.session_id = welcome.session_id;
  features_ = welcome.features & wire::known_features;
  // An older daemon leases nothing; a new one says so where an earlier one's lease is void.
  if ((welcome.features & wire::feature_write_lease) == 0) grant_.most_written_bytes = wire::any_bytes;
  awaits_tiers_ = wants_tiers_ && !was_welcomed_ && (welcome.features & wire::feature_tiers) != 0;
  was_welcomed_ = true;
  if (awaits_tiers_) return EAGAIN;  // the greeting is not over
  state_ = State::connected;
  return 0;
}

int Client::accept_tiers(Descriptors* descriptors) noexcept {
  const auto tiers = wire::read_as<wire::Tiers>(packet_);
  const bool has_fd = (tiers.flags & wire::tiers_nvm_fd) != 0;
  if (descriptors->count != (has_fd ? 1U : 0U)) return EBADMSG;
  if (has_fd) {
    grant_.nvm_fd = descriptors->take(0);
    grant_.nvm_capacity_bytes = tiers.nvm_capacity_bytes;
    grant_.nvm_limit_bytes = tiers.nvm_limit_bytes;
  }
  grant_.shares_nvm = (tiers.flags & wire::tiers_shares_nvm) != 0;
  wire::copy_text(grant_.tiers, sizeof grant_.tiers, nullptr);
  for (std::size_t i = 0; i + 1 < sizeof grant_.tiers && tiers.text[i] != '\0'; ++i)
    grant_.tiers[i] = tiers.text[i];
  awaits_tiers_ = false;
  state_ = State::connected;
  return 0;
}

void Client::accept_nvm_limit(Notice* notice) noexcept {
  grant_.nvm_limit_bytes = wire::read_as<wire::Tiers>(packet_).nvm_limit_bytes;
  *notice = Notice::budget_changed;
}

int Client::accept_refusal() noexcept {
  const auto refused = wire::read_as<wire::Refused>(packet_);
  wire::copy_text(refused_text_, sizeof refused_text_, nullptr);
  for (std::size_t i = 0; i + 1 < sizeof refused_text_ && refused.text[i] != '\0'; ++i)
    refused_text_[i] = refused.text[i];
  close_socket();
  // A job that was in session carries on and asks again now and then; a new one takes the answer.
  if (!was_welcomed_) state_ = State::idle;
  refused_ = true;
  const bool sane = refused.error > 0 && refused.error < 4096 && refused.error != EAGAIN;
  return sane ? refused.error : EPROTO;
}

void Client::accept_budget(Notice* notice) noexcept {
  const auto budget = wire::read_as<wire::Budget>(packet_);
  grant_.budget_bytes = budget.budget_bytes;
  grant_.pool_limit_bytes = budget.pool_limit_bytes;
  *notice = Notice::budget_changed;
}

void Client::accept_writes(Notice* notice) noexcept {
  const auto writes = wire::read_as<wire::Writes>(packet_);
  grant_.most_written_bytes = writes.most_written_bytes;
  grant_.is_last_lease = (writes.flags & wire::writes_are_last) != 0;
  *notice = Notice::budget_changed;
}

// The descriptor is there exactly if there is a plan. What it holds is judged by who carries plans out.
int Client::accept_schedule(Descriptors* descriptors, Notice* notice) noexcept {
  const auto schedule = wire::read_as<wire::PlannedSchedule>(packet_);
  const std::size_t wanted = schedule.image_bytes == 0 ? 0 : 1;
  if (descriptors->count != wanted) return EBADMSG;
  plan_.phase = schedule.phase;
  plan_.period_hash = schedule.period_hash;
  plan_.image_bytes = schedule.image_bytes;
  plan_.budget_bytes = schedule.budget_bytes;
  plan_.fd = descriptors->take(0, Descriptor::replaceable);
  wire::copy_text(plan_.text, sizeof plan_.text, nullptr);
  for (std::size_t i = 0; i + 1 < sizeof plan_.text && schedule.text[i] != '\0'; ++i)
    plan_.text[i] = schedule.text[i];
  *notice = Notice::schedule;
  return 0;
}

}  // namespace terrace::liballoc
