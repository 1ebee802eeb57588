#include "liballoc/paging/accounts.h"

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {

void Accounts::tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes) const {
  if (client_ == nullptr) return;
  client_->push({.time_ns = os::now_ns(),
                 .address = reinterpret_cast<std::uintptr_t>(runs_.address(n)),
                 .call_site = runs_[n].block != 0 ? blocks_[runs_[n].block].call_site : 0,
                 .bytes = bytes,
                 .kind = kind});
}

void Accounts::tell_block(wire::EventKind kind, const KnownBlock& block) const {
  if (client_ == nullptr) return;
  client_->push({.time_ns = os::now_ns(),
                 .address = reinterpret_cast<std::uintptr_t>(runs_.heap().granule(block.first)),
                 .call_site = block.call_site,
                 .bytes = std::uint64_t{block.granules} * granule_bytes,
                 .kind = kind});
}

void Accounts::tell_pool_full(std::uint64_t used_bytes) const {
  tell(wire::EventKind::pool_full, 0, used_bytes);
}

void Accounts::tell_step(std::uint32_t phase, std::uint32_t events) const {
  if (client_ == nullptr) return;
  client_->push({.time_ns = os::now_ns(), .address = phase, .bytes = events, .kind = wire::EventKind::step});
}

void Accounts::report_loss(std::uint32_t n, const char* why, const char* place, int error) const {
  const std::uint32_t id = runs_[n].block;
  Message m(Severity::error);
  m << "lost 2 MiB at " << static_cast<const void*>(runs_.address(n));
  if (id != 0) {
    const KnownBlock& b = blocks_[id];
    m << " of the allocation of ";
    m.bytes(std::uint64_t{b.granules} * granule_bytes)
        << " at " << static_cast<const void*>(runs_.heap().granule(b.first)) << " made from "
        << reinterpret_cast<const void*>(b.call_site);
  }
  m << ": " << why << ", ";
  m.error(error) << (place[0] != '\0' ? " in " : "") << place << "; touching it raises SIGBUS";
}

}  // namespace terrace::liballoc
