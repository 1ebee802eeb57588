// See announcements.h.
#include "daemon/packets/announcements.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

std::string spent_words(const Registry& registry, SessionId session) {
  const Writes& writes = registry.writes();
  return fmt::format(
      "may write no more to {} today than {} that it was leased: {} of {} a day are charged to all jobs",
      registry.pools().directory(), format_size(writes.ahead_bytes(session)),
      format_size(writes.today_bytes()), format_size(writes.limit_bytes()));
}

}  // namespace

void Announcements::announce() const {
  for (const Announcement& announcement : handling_.registry.announcements()) {
    wire::Budget message = wire::make<wire::Budget>();
    message.budget_bytes = announcement.budget_bytes;
    message.pool_limit_bytes = announcement.pool_limit_bytes;
    handling_.connections.send_to(announcement.session, message);
    if (announcement.nvm_limit_bytes) announce_nvm(announcement.session, *announcement.nvm_limit_bytes);
  }
}

void Announcements::announce_nvm(SessionId session, std::uint64_t limit_bytes) const {
  wire::Tiers message = wire::make<wire::Tiers>();
  message.nvm_capacity_bytes = handling_.registry.nvm()->capacity_bytes(session);
  message.nvm_limit_bytes = limit_bytes;
  handling_.connections.send_to(session, message);
}

void Announcements::announce_writes() const {
  Registry& registry = handling_.registry;
  const std::uint64_t now_ns = handling_.loop.now_ns();
  const Arbiter& arbiter = registry.arbiter();
  const auto weight_of = [&](const JobKey& job) { return std::max(1U, arbiter.job_weight(job)); };
  for (const WriteLease& lease : registry.writes().round(now_ns, weight_of)) {
    const Session* session = registry.find(lease.session);
    if (session == nullptr) continue;
    if (lease.is_last) registry.note(lease.session, "spent", spent_words(registry, lease.session), now_ns);
    if (!session->takes_write_leases) continue;
    wire::Writes message = wire::make<wire::Writes>();
    message.flags = lease.is_last ? wire::writes_are_last : 0;
    message.most_written_bytes = lease.most_written_bytes;
    handling_.connections.send_to(lease.session, message);
  }
}

}  // namespace terrace::daemon
