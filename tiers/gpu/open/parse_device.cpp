// What a user writes after --gpu, read strictly: a wrong letter in a size would otherwise become a device
// that is a thousand times too small, and a job that "does not fit". Every refusal names the text, its fault
// and the grammar.
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {
namespace {

constexpr std::string_view grammar =
    "accepted: cuda, cuda:INDEX, emulated:CAPACITY[,h2d=RATE][,d2h=RATE][,latency=TIME][,lag=TIME]; CAPACITY "
    "in multiples of 2M up to 16T, RATE in bytes a second up to 16T, both with B, K, M, G or T (or KiB, MiB, "
    "GiB, TiB); TIME with ns, us, ms or s, up to 10s";

constexpr std::uint64_t largest_size = std::uint64_t{16} << 40;
constexpr std::uint64_t largest_time_ns = 10'000'000'000;
constexpr int largest_index = 1023;

struct Unit {
  std::string_view text;
  std::uint64_t factor;
};
constexpr std::uint64_t one = 1;
constexpr std::array size_units{Unit{"", one},          Unit{"B", one},         Unit{"K", one << 10},
                                Unit{"KiB", one << 10}, Unit{"M", one << 20},   Unit{"MiB", one << 20},
                                Unit{"G", one << 30},   Unit{"GiB", one << 30}, Unit{"T", one << 40},
                                Unit{"TiB", one << 40}};
constexpr std::array time_units{Unit{"ns", 1}, Unit{"us", 1'000}, Unit{"ms", 1'000'000},
                                Unit{"s", 1'000'000'000}};

// A number and one of `units`, at most `largest`; digits only, so neither signs nor spaces nor fractions.
template <std::size_t N>
std::optional<std::uint64_t> amount(std::string_view text, const std::array<Unit, N>& units,
                                    std::uint64_t largest) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(rest - text.data()));
  for (const Unit& unit : units) {
    if (unit.text != suffix) continue;
    if (number > largest / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

std::string quoted(std::string_view text) { return std::string(1, '"').append(text).append(1, '"'); }

std::optional<std::uint64_t> size(std::string_view text) { return amount(text, size_units, largest_size); }

// One parser for one text: what is wrong, if something is, in words.
class Parser {
 public:
  std::string parse(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view kind = text.substr(0, colon);
    const bool has_rest = colon != std::string_view::npos;
    const std::string_view rest = has_rest ? text.substr(colon + 1) : std::string_view{};
    if (kind == "cuda") return has_rest ? index(rest) : std::string{};
    if (kind == "emulated") return has_rest ? emulated(rest) : "it says no capacity, as in emulated:8G";
    return quoted(kind) + " is no kind of device";
  }

  const DeviceSpec& spec() const { return spec_; }

 private:
  std::string index(std::string_view text) {
    int number = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc{} && rest == text.data() + text.size();
    if (!whole || text.front() == '-' || number > largest_index) {
      return quoted(text) + " is no index from 0 to " + std::to_string(largest_index);
    }
    spec_.index = number;
    return {};
  }

  std::string emulated(std::string_view text) {
    spec_.kind = Kind::emulated;
    std::size_t comma = text.find(',');
    std::string fault = capacity(text.substr(0, comma));
    while (fault.empty() && comma != std::string_view::npos) {
      text.remove_prefix(comma + 1);
      comma = text.find(',');
      fault = option(text.substr(0, comma));
    }
    return fault;
  }

  std::string capacity(std::string_view text) {
    const auto bytes = size(text);
    if (!bytes || *bytes == 0 || *bytes % frame_size != 0) {
      return quoted(text) + " is no capacity in multiples of 2M up to 16T";
    }
    spec_.capacity_bytes = *bytes;
    return {};
  }

  std::string option(std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : text.substr(equals + 1);
    if (key == "h2d") return set(key, size(value), value, &seen_to_device_, &spec_.to_device_bytes_per_s);
    if (key == "d2h") return set(key, size(value), value, &seen_to_host_, &spec_.to_host_bytes_per_s);
    if (key == "latency") {
      return set(key, amount(value, time_units, largest_time_ns), value, &seen_latency_, &spec_.latency_ns);
    }
    if (key == "lag") {
      return set(key, amount(value, time_units, largest_time_ns), value, &seen_lag_, &spec_.lag_ns);
    }
    return quoted(key) + " is no option of an emulated device";
  }

  static std::string set(std::string_view key, std::optional<std::uint64_t> value, std::string_view text,
                         bool* seen, std::uint64_t* out) {
    if (*seen) return std::string(key) + " is given twice";
    if (!value) return quoted(text) + " is no value for " + std::string(key);
    *seen = true;
    *out = *value;
    return {};
  }

  DeviceSpec spec_;
  bool seen_to_device_ = false;
  bool seen_to_host_ = false;
  bool seen_latency_ = false;
  bool seen_lag_ = false;
};

}  // namespace

int parse_device(std::string_view text, DeviceSpec* out, std::string* reason) {
  Parser parser;
  const std::string fault = parser.parse(text);
  if (fault.empty()) {
    *out = parser.spec();
    return 0;
  }
  if (reason != nullptr) *reason = quoted(text) + ": " + fault + "; " + std::string(grammar);
  return EINVAL;
}

}  // namespace terrace::tiers::gpu
