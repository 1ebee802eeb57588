// See memory_pressure.h.
#include "daemon/pressure/memory_pressure.h"

#include <spdlog/spdlog.h>

#include <charconv>
#include <fstream>
#include <vector>

#include "daemon/base/machine.h"
#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

constexpr std::size_t most_proc_text = std::size_t{16} * 1024;

std::string text_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most_proc_text, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// What follows `label`, which begins a line.
std::optional<std::string_view> after(std::string_view text, std::string_view label) {
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(label)) return text.substr(at + label.size());
    const auto end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    at = end + 1;
  }
  return std::nullopt;
}

// A number at the front, and what follows it.
std::optional<std::uint64_t> take_number(std::string_view* text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return number;
}

// "12.34 ", a percentage, as 1234.
std::optional<std::uint32_t> hundredths(std::string_view text, std::string_view label) {
  auto rest = after(text, label);
  if (!rest) return std::nullopt;
  const auto whole = take_number(&*rest);
  if (!whole || *whole > 100 || !rest->starts_with('.')) return std::nullopt;
  rest->remove_prefix(1);
  const std::size_t digits = rest->find(' ');
  const auto fraction = take_number(&*rest);
  if (digits != 2 || !fraction || !rest->starts_with(' ')) return std::nullopt;
  return static_cast<std::uint32_t>(*whole * 100 + *fraction);
}

std::optional<std::uint64_t> bytes_in(std::string_view meminfo, std::string_view label) {
  auto rest = after(meminfo, label);
  if (!rest) return std::nullopt;
  rest->remove_prefix(std::min(rest->find_first_not_of(' '), rest->size()));
  const auto kib = take_number(&*rest);
  if (!kib || *kib > ~std::uint64_t{0} / 1024 || !rest->starts_with(" kB")) return std::nullopt;
  return *kib * 1024;
}

}  // namespace

std::optional<MemoryState> read_memory_state(std::string_view pressure, std::string_view meminfo) {
  const auto some = hundredths(pressure, "some avg10="), full = hundredths(pressure, "full avg10=");
  const auto available = bytes_in(meminfo, "MemAvailable:"), total = bytes_in(meminfo, "MemTotal:");
  if (!some || !full || !available || !total) return std::nullopt;
  return MemoryState{*some, *full, *available, *total};
}

std::optional<MemoryState> read_cgroup_state(std::string_view pressure, std::string_view current,
                                             std::string_view stat, std::uint64_t limit_bytes) {
  const auto some = hundredths(pressure, "some avg10="), full = hundredths(pressure, "full avg10=");
  const auto used = take_number(&current);
  auto label = after(stat, "inactive_file ");
  const auto unused = label ? take_number(&*label) : std::nullopt;
  if (!some || !full || !used || !unused) return std::nullopt;
  const std::uint64_t needed = minus(*used, *unused);
  return MemoryState{*some, *full, minus(limit_bytes, needed), limit_bytes};
}

namespace {

std::optional<MemoryState> state_of_cgroup(const std::string& root) {
  const auto cgroup = tightest_memory_cgroup(root);
  if (!cgroup) return std::nullopt;
  const std::string& at = cgroup->directory;
  return read_cgroup_state(text_in(at + "/memory.pressure"), text_in(at + "/memory.current"),
                           text_in(at + "/memory.stat"), cgroup->limit_bytes);
}

}  // namespace

bool MemoryPressure::look(std::uint64_t budget_bytes, std::uint64_t now_ns) {
  if (!is_due(now_ns)) return false;
  next_ns_ = now_ns + pause_ns;
  const auto state =
      read_memory_state(text_in(root_ + "/proc/pressure/memory"), text_in(root_ + "/proc/meminfo"));
  if (!state && is_known_ != false)
    spdlog::info(
        "{}/proc/pressure/memory does not say how short memory is (a kernel with CONFIG_PSI, started with "
        "psi=1, does): the budget does not follow it",
        root_);
  is_known_ = state.has_value();
  std::vector<MemoryState> states;
  if (state) states.push_back(*state);
  if (const auto cgroup = state_of_cgroup(root_)) states.push_back(*cgroup);
  return !states.empty() && policy_.observe(states, budget_bytes, now_ns);
}

}  // namespace terrace::daemon
