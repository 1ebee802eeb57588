// See record.h.
#include "daemon/promises/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "daemon/base/names.h"
#include "daemon/pools/pools.h"
#include "tiers/records/sealed.h"

namespace terrace::daemon {
namespace {

constexpr std::size_t boot_bytes = 48;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;

struct Head {
  std::uint32_t magic = 0x52505254;  // "TRPR"
  std::uint32_t version = 4;
  std::uint32_t count = 0;
  std::uint32_t number = 0;
  char boot[boot_bytes] = {};
};
static_assert(sizeof(Head) == 4 * 4 + 48);

struct Entry {
  std::uint32_t uid = 0;
  std::uint32_t flags = 0;
  char job[wire::name_bytes] = {};
  std::uint64_t promised_bytes = 0;
  std::uint64_t granted_bytes = 0;
  std::uint64_t pool_bytes = 0;
  std::uint64_t limit_bytes = 0;  // 0: none
  std::uint32_t weight = 0;
  std::uint32_t reserved = 0;
  std::uint64_t tier_limit_bytes[3] = {};  // of the pool, of what is written in a day, of each GPU; 0: none
  std::uint64_t nvm_bytes = 0;
};
// Of an entry, by version.
constexpr std::size_t entry_sizes[] = {4 + 4 + 64 + 3 * 8, 4 + 4 + 64 + 3 * 8 + 8 + 4 + 4, sizeof(Entry),
                                       sizeof(Entry)};
static_assert(sizeof(Entry) == entry_sizes[1] + sizeof(Entry::tier_limit_bytes) + sizeof(Entry::nvm_bytes));
constexpr std::uint32_t limited_by_administrator = 1, paused = 2;
constexpr std::uint32_t tier_limited_by_administrator[] = {4, 8, 16};
constexpr std::uint32_t all_flags = 1 + 2 + 4 + 8 + 16;
// Below them no daemon sets a limit (Pools, WriteShares, GpuShares).
constexpr std::uint64_t least_tier_limit_bytes[] = {Pools::least_bytes, 1, Arbiter::minimum_bytes};

// In the order of the record.
template <class SomePromise>
auto tier_limits_of(SomePromise& promise) {
  return std::array{&promise.pool_limit, &promise.writes_limit, &promise.gpu_limit};
}

std::uint64_t limit_to_write(const JobLimit& limit) {
  return limit.bytes == no_limit ? 0 : std::min(limit.bytes, most_bytes);
}

JobLimit limit_as_written(std::uint64_t bytes, bool is_administrators) {
  return {bytes == 0 ? no_limit : bytes, is_administrators ? Asker::administrator : Asker::owner};
}

Entry entry_of(const JobKey& job, const Promise& promise) {
  Entry entry;
  entry.uid = job.uid;
  std::memcpy(entry.job, job.name.data(), std::min(job.name.size(), sizeof entry.job));
  entry.promised_bytes = promise.promised_bytes;
  entry.granted_bytes = promise.granted_bytes;
  entry.pool_bytes = promise.pool_bytes;
  entry.limit_bytes = limit_to_write(promise.limit);
  if (promise.limit.by == Arbiter::By::administrator) entry.flags |= limited_by_administrator;
  const auto tier_limits = tier_limits_of(promise);
  for (std::size_t i = 0; i < tier_limits.size(); ++i) {
    entry.tier_limit_bytes[i] = limit_to_write(*tier_limits[i]);
    if (tier_limits[i]->by == Asker::administrator) entry.flags |= tier_limited_by_administrator[i];
  }
  if (promise.is_paused) entry.flags |= paused;
  entry.weight = promise.weight;
  entry.nvm_bytes = promise.nvm_bytes;
  return entry;
}

Promise promise_of(const Entry& entry) {
  Promise promise{entry.promised_bytes, entry.granted_bytes, entry.pool_bytes};
  promise.limit = limit_as_written(entry.limit_bytes, (entry.flags & limited_by_administrator) != 0);
  const auto tier_limits = tier_limits_of(promise);
  for (std::size_t i = 0; i < tier_limits.size(); ++i)
    *tier_limits[i] =
        limit_as_written(entry.tier_limit_bytes[i], (entry.flags & tier_limited_by_administrator[i]) != 0);
  promise.is_paused = (entry.flags & paused) != 0;
  promise.weight = entry.weight;
  promise.nvm_bytes = entry.nvm_bytes;
  return promise;
}

Entry entry_at(std::string_view bytes, std::size_t at, std::size_t entry_bytes) {
  Entry entry;
  std::memcpy(&entry, bytes.data() + at, entry_bytes);
  return entry;
}

DecodedPromises broken(std::string what) { return {{}, 0, std::move(what)}; }

// Whether a daemon writes such an entry: a name as it keeps names, amounts that there can be.
bool is_sound(const Entry& entry, const JobKey& job) {
  bool has_sound_terms = (entry.flags & ~all_flags) == 0 && entry.weight <= wire::most_weight &&
                         (entry.limit_bytes == 0 || entry.limit_bytes >= Arbiter::minimum_bytes);
  for (std::size_t i = 0; i < std::size(least_tier_limit_bytes); ++i) {
    const std::uint64_t bytes = entry.tier_limit_bytes[i];
    has_sound_terms =
        has_sound_terms && bytes <= most_bytes && (bytes == 0 || bytes >= least_tier_limit_bytes[i]);
  }
  return has_sound_terms && entry.reserved == 0 && job.name == clean_name(entry.job, sizeof entry.job, "") &&
         !job.name.empty() &&
         std::max({entry.promised_bytes, entry.granted_bytes, entry.pool_bytes, entry.limit_bytes,
                   entry.nvm_bytes}) <= most_bytes;
}

// What a record that begins at `at` says that it has; what an earlier, longer one left behind it is not of
// it.
std::string_view record_at(std::string_view bytes, std::size_t at) {
  bytes.remove_prefix(at);
  if (bytes.size() < sizeof(Head)) return bytes;
  const auto head = records::get<Head>(bytes, 0);
  if (head.version < 1 || head.version > Head().version || head.count > most_promises) return bytes;
  return bytes.substr(0, sizeof(Head) + head.count * entry_sizes[head.version - 1] + records::seal_bytes);
}

}  // namespace

std::size_t most_record_bytes() {
  constexpr std::size_t bytes = sizeof(Head) + most_promises * sizeof(Entry) + records::seal_bytes;
  static_assert(bytes <= record_places[1]);
  return bytes;
}

std::string encode_promises(const Promises& promises, std::string_view boot, std::uint32_t number) {
  Head head;
  head.count = static_cast<std::uint32_t>(std::min(promises.size(), most_promises));
  head.number = number;
  std::memcpy(head.boot, boot.data(), std::min(boot.size(), sizeof head.boot));
  std::string bytes;
  records::put(&bytes, head);
  std::uint64_t left = head.count;
  for (const auto& [job, promise] : promises) {
    if (left-- == 0) break;
    records::put(&bytes, entry_of(job, promise));
  }
  records::seal(&bytes);
  return bytes;
}

DecodedPromises decode_promises(std::string_view bytes, std::string_view boot) {
  if (bytes.size() < sizeof(Head) + records::seal_bytes) return broken("it is too short");
  const auto head = records::get<Head>(bytes, 0);
  if (head.magic != Head().magic) return broken("it is something else");
  if (head.version < 1 || head.version > Head().version)
    return broken(fmt::format("it is of version {}", head.version));
  const std::size_t entry_bytes = entry_sizes[head.version - 1];
  const std::size_t content = bytes.size() - records::seal_bytes;
  if (head.version < 4 && head.number != 0) return broken("it counts too many entries");
  if (head.count > most_promises || content != sizeof(Head) + head.count * entry_bytes)
    return broken("its size is not that of its content");
  if (!records::is_sealed(bytes)) return broken("its checksum is wrong");
  Head expected;
  std::memcpy(expected.boot, boot.data(), std::min(boot.size(), sizeof expected.boot));
  if (std::memcmp(head.boot, expected.boot, sizeof head.boot) != 0)
    return broken("the record is older than the machine's last start");
  DecodedPromises decoded;
  decoded.number = head.number;
  for (std::size_t i = 0; i < head.count; ++i) {
    const auto entry = entry_at(bytes, sizeof(Head) + i * entry_bytes, entry_bytes);
    const JobKey job{entry.uid, std::string(entry.job, ::strnlen(entry.job, sizeof entry.job))};
    if (!is_sound(entry, job)) return broken(fmt::format("entry {} is none that terraced writes", i + 1));
    decoded.promises[job] = promise_of(entry);
  }
  if (decoded.promises.size() != head.count) return broken("it has a job twice");
  return decoded;
}

std::size_t most_record_file_bytes() { return record_places[1] + most_record_bytes(); }

DecodedPromises decode_record_file(std::string_view bytes, std::string_view boot) {
  DecodedPromises first = decode_promises(record_at(bytes, record_places[0]), boot);
  if (bytes.size() <= record_places[1]) return first;
  DecodedPromises second = decode_promises(record_at(bytes, record_places[1]), boot);
  const bool is_second_newer =
      second.problem.empty() && (!first.problem.empty() || second.number > first.number);
  return is_second_newer ? second : first;
}

}  // namespace terrace::daemon
