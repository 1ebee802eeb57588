// See endurance.h.
#include "tiers/records/endurance.h"

#include <time.h>

#include <algorithm>

#include "tiers/records/sealed.h"

namespace terrace::records {
namespace {

struct EnduranceHead {
  std::uint32_t magic = 0x4c455254;  // "TREL"
  std::uint32_t version = 2;
  std::uint64_t day = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t count = 0;
};
static_assert(sizeof(EnduranceHead) == 4 + 4 + 3 * 8);

struct EnduranceEntry {
  std::uint32_t user = 0;
  std::uint32_t reserved = 0;
  std::uint64_t today_bytes = 0;
};
static_assert(sizeof(EnduranceEntry) == 4 + 4 + 8);

}  // namespace

std::uint64_t Endurance::today_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [user, bytes] : today) sum += bytes;
  return sum;
}

void Endurance::begin_day(std::uint64_t now_day) {
  if (now_day == day || now_day + 1 == day) return;
  if (now_day > day) today.clear();
  day = now_day;
}

void Endurance::charge(std::uint32_t user, std::uint64_t bytes) {
  const bool has_room = today.contains(user) || today.size() + 1 < most_writers;
  const std::uint64_t counted =
      std::min(bytes, most_written_bytes - std::min(most_written_bytes, total_bytes));
  if (counted == 0) return;
  today[has_room ? user : nobody] += counted;
  total_bytes += counted;
}

void Endurance::give_back(std::uint32_t user, std::uint64_t bytes) {
  const auto known = today.find(user);
  const auto found = known != today.end() ? known : today.find(nobody);
  if (found == today.end()) return;
  const std::uint64_t given = std::min(bytes, found->second);
  found->second -= given;
  total_bytes -= std::min(given, total_bytes);
}

std::size_t most_endurance_bytes() {
  return sizeof(EnduranceHead) + most_writers * sizeof(EnduranceEntry) + seal_bytes;
}

std::string encode_endurance(const Endurance& written) {
  std::string bytes;
  put(&bytes,
      EnduranceHead{.day = written.day, .total_bytes = written.total_bytes, .count = written.today.size()});
  for (const auto& [user, today_bytes] : written.today) put(&bytes, EnduranceEntry{user, 0, today_bytes});
  seal(&bytes);
  return bytes;
}

std::optional<Endurance> decode_endurance(std::string_view bytes) {
  if (bytes.size() < sizeof(EnduranceHead) + seal_bytes) return std::nullopt;
  const auto head = get<EnduranceHead>(bytes, 0);
  const std::size_t content = bytes.size() - seal_bytes;
  if (head.count > most_writers || content != sizeof(EnduranceHead) + head.count * sizeof(EnduranceEntry))
    return std::nullopt;
  if (!is_sealed(bytes)) return std::nullopt;
  if (head.total_bytes > most_written_bytes) return std::nullopt;
  Endurance written{head.day, head.total_bytes, {}};
  std::uint64_t left = head.total_bytes;  // today's bytes are a part of all
  for (std::size_t i = 0; i < head.count; ++i) {
    const auto entry = get<EnduranceEntry>(bytes, sizeof(EnduranceHead) + i * sizeof(EnduranceEntry));
    if (entry.today_bytes > left) return std::nullopt;
    left -= entry.today_bytes;
    written.today[entry.user] = entry.today_bytes;
  }
  const bool lacks_nobody = written.today.size() == most_writers && !written.today.contains(nobody);
  return !lacks_nobody && encode_endurance(written) == bytes ? std::optional(written) : std::nullopt;
}

std::uint64_t day_of_clock() { return static_cast<std::uint64_t>(::time(nullptr)) / 86400; }

}  // namespace terrace::records
