#include "liballoc/agent/pool/fault_injection.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "liballoc/base/kernel_text.h"
#include "liballoc/wire/size.h"

namespace terrace::liballoc {
namespace {

using Operation = tiers::FailingAdaptor::Operation;

bool starts_with(const char* text, const char* prefix, const char** rest) {
  const std::size_t length = std::strlen(prefix);
  if (std::strncmp(text, prefix, length) != 0) return false;
  *rest = text + length;
  return true;
}

bool error_named(const char* text, int* error) {
  static constexpr struct {
    const char* name;
    int value;
  } names[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"ENODEV", ENODEV}, {"EAGAIN", EAGAIN}};
  for (const auto& n : names) {
    if (std::strcmp(text, n.name) != 0) continue;
    *error = n.value;
    return true;
  }
  return false;
}

// "5:EIO"
bool count_and_error(const char* text, std::uint64_t* count, int* error) {
  const char* colon = std::strchr(text, ':');
  return colon != nullptr && parse_number(text, count) && *count > 0 && error_named(colon + 1, error);
}

}  // namespace

tiers::FailingAdaptor* FaultInjection::failing(tiers::Tier** tier) {
  if (failing_ == nullptr) {
    failing_ = new (failing_storage_) tiers::FailingAdaptor(**tier);
    *tier = failing_;
  }
  return failing_;
}

// "20ms"
bool FaultInjection::slow(const char* text, tiers::Tier** tier) {
  std::uint64_t milliseconds = 0;
  if (!parse_number(text, &milliseconds) || std::strstr(text, "ms") == nullptr || milliseconds > 60000)
    return false;
  return make_slow({.latency_ns = milliseconds * 1000000}, tier);
}

bool FaultInjection::pace(const char* text, bool is_nvm, tiers::Tier** tier) {
  std::uint64_t bytes = 0;
  if (wire::read_size(text, &bytes) != 0 || bytes == 0) return false;
  if (!is_nvm) return make_slow({.bytes_per_second = bytes}, tier);
  if (is_slow_) return false;
  is_slow_ = true;
  *tier = new (paced_storage_) tiers::PacedAdaptor(**tier, bytes);
  return true;
}

bool FaultInjection::make_slow(const tiers::SlowAdaptor::Speed& speed, tiers::Tier** tier) {
  if (is_slow_) return false;
  auto* adaptor = new (slow_storage_) tiers::SlowAdaptor(**tier, speed);
  if (adaptor->open() != 0) return false;
  is_slow_ = true;
  *tier = adaptor;
  return true;
}

bool FaultInjection::apply(const char* word, std::size_t length, bool is_nvm, tiers::Tier** tier) {
  char text[64];
  if (length >= sizeof(text)) return false;
  std::memcpy(text, word, length);
  text[length] = '\0';
  const char* what = text;
  const char* rest = nullptr;
  if (starts_with(text, "nvm-", &what) != is_nvm) return true;  // of the other
  if (starts_with(what, "pace:", &rest)) return pace(rest, is_nvm, tier);
  if (!is_nvm && starts_with(what, "slow:", &rest)) return slow(rest, tier);
  return damage(what, tier);
}

bool FaultInjection::damage(const char* text, tiers::Tier** tier) {
  const char* rest = nullptr;
  std::uint64_t nth = 0;
  int error = 0;
  static constexpr struct {
    const char* prefix;
    Operation operation;
  } plans[] = {{"read:", Operation::read}, {"write:", Operation::write}, {"reserve:", Operation::reserve}};
  for (const auto& plan : plans) {
    if (!starts_with(text, plan.prefix, &rest)) continue;
    if (!count_and_error(rest, &nth, &error)) return false;
    failing(tier)->fail_from(plan.operation, nth, error);
    return true;
  }
  if (starts_with(text, "corrupt:", &rest) && parse_number(rest, &nth) && nth > 0) {
    failing(tier)->flip_bit_in_nth_read(nth, 12345);
    return true;
  }
  if (!starts_with(text, "lose:", &rest) || !parse_number(rest, &nth) || nth == 0) return false;
  failing(tier)->fail_from(Operation::write, nth + 1, EIO);
  failing(tier)->fail_from(Operation::read, 1, EIO);
  return true;
}

tiers::Tier* FaultInjection::wrap(tiers::Tier* tier, const char* spec, bool is_nvm) {
  while (*spec != '\0') {
    const char* comma = std::strchr(spec, ',');
    const std::size_t length = comma != nullptr ? static_cast<std::size_t>(comma - spec) : std::strlen(spec);
    if (!apply(spec, length, is_nvm, &tier)) return nullptr;
    spec += length + (comma != nullptr ? 1 : 0);
  }
  return tier;
}

}  // namespace terrace::liballoc
