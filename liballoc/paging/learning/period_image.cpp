#include "liballoc/paging/learning/period_image.h"

#include <linux/memfd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/heap/space/address_space.h"
#include "liballoc/wire/period/writer.h"

namespace terrace::liballoc {
namespace {

// Visits what is planned and known: by birth, then what persists by block. Of what persists and is never
// touched there is nothing to plan: it leaves once and stays away.
template <typename Visit>
void each_sent(const PeriodTable& table, PersistentObjects& persistent, Visit visit) {
  for (std::uint32_t object = 0; object < table.length(); ++object)
    if (table.is_planned(object)) visit(object);
  std::uint32_t block = 1;
  for (std::uint32_t object; (object = persistent.next(&block)) != PeriodTable::none; ++block) {
    const bool is_idle = table[object].rounds > 0 && table[object].uses.counted() == 0;
    if (table.is_planned(object) && !is_idle) visit(object);
  }
}

// Of what is born in the period the first use is its birth, where it is written.
template <typename Visit>
void each_use(const PeriodTable& table, std::uint32_t object, bool is_read_only, Visit visit) {
  const LearnedObject& o = table[object];
  const bool is_born = !PeriodTable::is_persistent(object);
  const bool is_known = o.rounds > 0 || o.uses.size() > 0;
  if (is_born && is_known) visit(wire::PeriodUse{object, wire::use_writes});
  for (std::uint32_t i = 0; i < o.uses.size(); ++i) {
    const LearnedUse& use = o.uses[i];
    const bool is_birth = is_born && use.interval == object;
    if (use.counts() && !is_birth && table.is_alive_in(object, use.interval))
      visit(wire::PeriodUse{use.interval, is_read_only ? 0 : wire::use_writes});
  }
}

wire::PeriodCounts counts_of(const PeriodTable& table, PersistentObjects& persistent) {
  wire::PeriodCounts counts{table.length(), 0, 0};
  each_sent(table, persistent, [&](std::uint32_t object) {
    ++counts.objects;
    each_use(table, object, false, [&](const wire::PeriodUse&) { ++counts.uses; });
  });
  return counts;
}

void fill_objects(const PeriodTable& table, PersistentObjects& persistent, wire::PeriodWriter* writer) {
  std::uint32_t at = 0, uses = 0;
  each_sent(table, persistent, [&](std::uint32_t object) {
    const LearnedObject& o = table[object];
    const bool persists = PeriodTable::is_persistent(object);
    wire::PeriodObject& out = writer->objects()[at++];
    out = {.bytes = std::uint64_t{o.runs} * run_bytes,
           .birth = persists ? wire::persistent : object,
           .place = persists ? o.block : 0,
           .death = persists ? wire::never : o.death,
           .first_use = uses,
           .uses = 0,
           .reserved = 0};
    each_use(table, object, persists && persistent.is_read_only(object),
             [&](const wire::PeriodUse& use) { writer->uses()[uses++] = use; });
    out.uses = uses - out.first_use;
  });
}

void fill_image(const PeriodTable& table, const PeriodFacts& facts, PersistentObjects& persistent,
                wire::PeriodWriter* writer) {
  static_assert(sizeof(wire::PeriodEvent) == sizeof(std::uint64_t));
  table.fill_computing(&writer->events().data()->ns);
  fill_objects(table, persistent, writer);
  wire::PeriodHeader& header = writer->header();
  header.period_hash = table.hash();
  header.phase = table.phase();
  header.budget_bytes = facts.budget_bytes;
  header.fixed_bytes = facts.fixed_bytes;
  header.step_ns = table.step_ns();
  header.waited_ns = std::min(table.waited_ns(), table.step_ns());
  header.read_bytes_per_second = facts.read_bytes_per_second;
  header.write_bytes_per_second = facts.write_bytes_per_second;
  const std::size_t length = strnlen(facts.policy, header.policy.size() - 1);
  std::copy_n(facts.policy, length, header.policy.data());
  writer->finish();
}

// Its memory is there when this returns: a store to a file that the kernel has no memory for ends the
// process.
int open_image_memory(std::size_t bytes, int* out) {
  const long fd = syscall(SYS_memfd_create, "terrace-period", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return errno;
  const int error = os::error_of(syscall(SYS_fallocate, fd, 0, 0L, static_cast<long>(bytes)));
  if (error != 0) {
    os::close_fd(static_cast<int>(fd));
    return error;
  }
  *out = keep_descriptor(static_cast<int>(fd), Descriptor::replaceable);
  return *out < 0 ? EMFILE : 0;
}

int seal_image(int fd) {
  constexpr int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return os::error_of(syscall(SYS_fcntl, fd, F_ADD_SEALS, seals));
}

}  // namespace

int write_period_image(const PeriodTable& table, const PeriodFacts& facts, PersistentObjects& persistent,
                       LearnedPeriod* out, std::uint32_t* uses) {
  const wire::PeriodCounts counts = counts_of(table, persistent);
  const std::size_t bytes = wire::PeriodWriter::bytes_for(counts);
  if (!counts.are_within_limits() || bytes > wire::most_period_bytes) return E2BIG;
  int fd = -1;
  if (const int error = open_image_memory(bytes, &fd); error != 0) return error;
  void* const memory = os::map_file_shared(bytes, fd);
  int error = memory == nullptr ? ENOMEM : 0;
  if (error == 0) {
    wire::PeriodWriter writer({static_cast<std::byte*>(memory), bytes}, counts);
    fill_image(table, facts, persistent, &writer);
    *out = {fd, table.phase(), writer.header().period_hash, bytes};
    os::unmap(memory, bytes);
    error = seal_image(fd);
  }
  if (error != 0) {
    *out = {};
    close_kept(fd);
    return error;
  }
  *uses = counts.uses;
  return 0;
}

}  // namespace terrace::liballoc
