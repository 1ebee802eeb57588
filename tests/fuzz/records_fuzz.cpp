// What a daemon reads of an earlier one: the record of promises, and what was written to a drive. Decoding
// ends with a problem or with what is written back the same.
//
// The first byte chooses; the rest is the record, whose checksum is put right where there is room for one:
// else no input would come past it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "daemon/promises/record.h"
#include "tiers/records/endurance.h"

using namespace terrace;

namespace {

constexpr std::string_view boot = "0b3d1c2e-0000-4000-8000-1234567890ab\n";

std::string with_sum(std::string bytes) {
  constexpr std::size_t sum_bytes = 8;
  if (bytes.size() < sum_bytes) return bytes;
  const std::size_t content = bytes.size() - sum_bytes;
  const std::uint64_t sum = XXH3_64bits(bytes.data(), content);
  std::memcpy(bytes.data() + content, &sum, sum_bytes);
  return bytes;
}

void read_promises(const std::string& bytes) {
  const daemon::DecodedPromises decoded = daemon::decode_promises(bytes, boot);
  if (!decoded.problem.empty()) {
    if (!decoded.promises.empty()) std::abort();
    return;
  }
  const std::string written = daemon::encode_promises(decoded.promises, boot);
  const daemon::DecodedPromises back = daemon::decode_promises(written, boot);
  if (!back.problem.empty() || back.promises != decoded.promises) std::abort();
}

// A file whose first record is this, whatever it is, and whose second one is whole: one of them counts.
void read_record_file(std::string bytes) {
  const daemon::DecodedPromises first = daemon::decode_record_file(bytes, boot);
  if (!first.problem.empty() && !first.promises.empty()) std::abort();
  if (bytes.size() > daemon::record_places[1]) return;
  constexpr std::uint32_t number = 7;
  const daemon::Promises whole{{{1000, "train"}, {1, 1, 1}}};
  bytes.resize(daemon::record_places[1]);
  bytes += daemon::encode_promises(whole, boot, number);
  const daemon::DecodedPromises newer = daemon::decode_record_file(bytes, boot);
  if (!newer.problem.empty()) std::abort();
  const bool is_first = first.problem.empty() && first.number >= number;
  if (newer.promises != (is_first ? first.promises : whole)) std::abort();
}

void read_endurance(const std::string& bytes) {
  const auto decoded = records::decode_endurance(bytes);
  if (!decoded) return;
  if (records::encode_endurance(*decoded) != bytes || decoded->today_bytes() > decoded->total_bytes)
    std::abort();
  records::Endurance changed = *decoded;
  changed.charge(7, ~std::uint64_t{0});
  changed.give_back(7, ~std::uint64_t{0});
  changed.begin_day(decoded->day + 1);
  if (!records::decode_endurance(records::encode_endurance(changed))) std::abort();
}

// A record of ours, changed here and there, so that not every input has to be invented.
std::string changed_record(const std::uint8_t* data, std::size_t size) {
  daemon::Promises promises;
  for (std::uint32_t i = 0; i < 3; ++i) promises[{1000 + i, "train"}] = {i, i, i};
  std::string bytes = daemon::encode_promises(promises, boot);
  for (; size >= 3; data += 3, size -= 3) {
    std::uint16_t at = 0;
    std::memcpy(&at, data, sizeof at);
    bytes[at % bytes.size()] = static_cast<char>(data[2]);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      read_promises(with_sum(bytes));
      break;
    case 1:
      read_promises(with_sum(changed_record(data + 1, size - 1)));
      break;
    case 2:
      read_endurance(with_sum(bytes));
      break;
    case 3:
      read_record_file(bytes);
      read_record_file(with_sum(changed_record(data + 1, size - 1)));
      break;
    default:
      read_promises(bytes);
      read_endurance(bytes);
  }
  return 0;
}
