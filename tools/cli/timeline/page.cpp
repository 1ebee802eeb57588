#include "tools/cli/timeline/page.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "liballoc/heap/space/block.h"
#include "tools/cli/timeline/page_html.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

static_assert(std::endian::native == std::endian::little, "the page reads little-endian numbers");

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();

std::string base64(std::string_view bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 3; ++i)
      three = three << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? digits[three >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

template <class Number>
constexpr const char* kind_of() {
  if constexpr (std::is_same_v<Number, double>) return "f64";
  if constexpr (std::is_same_v<Number, float>) return "f32";
  if constexpr (std::is_same_v<Number, std::uint32_t>) return "u32";
  if constexpr (std::is_same_v<Number, std::uint8_t>) return "u8";
}

// Columns behind each other, each where its numbers are aligned; and where they lie.
class Columns {
 public:
  template <class Number, class Rows, class Value>
  void add(const char* name, const Rows& rows, const Value& value) {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    places_.push_back({name, kind_of<Number>(), bytes_.size(), rows.size()});
    for (const auto& row : rows) {
      const auto number = static_cast<Number>(value(row));
      char raw[sizeof(Number)];
      std::memcpy(raw, &number, sizeof number);
      bytes_.append(raw, sizeof raw);
    }
  }
  const json& places() const { return places_; }
  std::string text() const { return base64(bytes_); }

 private:
  std::string bytes_;
  json places_ = json::array();
};

class PageData {
 public:
  PageData(const Recording& recording, const History& history) : recording_(recording), history_(history) {
    add_samples();
    add_objects();
    add_absences();
    add_waits();
    add_steps();
  }

  std::string head() const {
    json causes = json::array();
    for (std::size_t cause = 0; cause < wait_causes; ++cause)
      causes.push_back(name_of(static_cast<WaitCause>(cause)));
    const json head{{"job", recording_.job},
                    {"program", recording_.program},
                    {"seconds", seconds_at(recording_.end_ns)},
                    {"missed", recording_.missed},
                    {"has_ended", recording_.has_ended},
                    {"peak_seconds", seconds_at(history_.peak_ns)},
                    {"peak_bytes", history_.peak_bytes},
                    {"run_bytes", liballoc::run_bytes},
                    {"causes", std::move(causes)},
                    {"plans", plans()},
                    {"columns", columns_.places()}};
    return escaped(head.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  std::string data() const { return columns_.text(); }

 private:
  double seconds_at(std::uint64_t ns) const {
    return (static_cast<double>(ns) - static_cast<double>(recording_.begin_ns)) / 1e9;
  }
  double seconds_or_not(std::uint64_t ns) const { return ns == 0 ? not_known : seconds_at(ns); }

  // Of which none is shown before it was there.
  json plans() const {
    json all = json::array();
    for (const PlanBegin& begin : recording_.plans)
      all.push_back({{"since", seconds_at(begin.time_ns)},
                     {"policy", begin.plan.policy},
                     {"reason", begin.plan.reason},
                     {"entries", begin.plan.entries},
                     {"step_seconds", begin.plan.step_seconds},
                     {"budget_bytes", begin.plan.budget_bytes},
                     {"tier_peak_bytes", begin.plan.tier_peak_bytes}});
    return all;
  }

  // A name of the program's may hold what ends a script.
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '<' ? "\\u003c" : std::string(1, c);
    return out;
  }

  void add_steps() {
    columns_.add<double>("steps", history_.steps, [&](const StepBegin& s) { return seconds_at(s.time_ns); });
    columns_.add<double>("stepSeconds", history_.steps, [](const StepBegin& s) {
      return s.ns == 0 ? not_known : static_cast<double>(s.ns) / 1e9;
    });
  }

  void add_samples() {
    const auto& rows = recording_.samples;
    columns_.add<double>("time", rows, [&](const MemorySample& s) { return seconds_at(s.time_ns); });
    columns_.add<double>("live", rows, [](const MemorySample& s) { return s.live_bytes; });
    // What holds frames is part of what is resident.
    columns_.add<double>("resident", rows, [](const MemorySample& s) {
      return s.resident_bytes - std::min(s.resident_bytes, s.compressed_bytes);
    });
    columns_.add<double>("compressed", rows, [](const MemorySample& s) { return s.compressed_bytes; });
    columns_.add<double>("stored", rows, [](const MemorySample& s) { return s.stored_bytes; });
    columns_.add<double>("budget", rows, [](const MemorySample& s) { return s.budget_bytes; });
    columns_.add<double>("read", rows, [](const MemorySample& s) { return s.read_bytes; });
    columns_.add<double>("written", rows, [](const MemorySample& s) { return s.written_bytes; });
    columns_.add<double>("plannedIn", rows, [](const MemorySample& s) { return s.planned_in_bytes; });
    columns_.add<double>("plannedOut", rows, [](const MemorySample& s) { return s.planned_out_bytes; });
  }

  void add_objects() {
    const auto& rows = history_.objects;
    columns_.add<double>("address", rows, [](const ObjectLife& o) { return o.address; });
    columns_.add<double>("bytes", rows, [](const ObjectLife& o) { return o.bytes; });
    columns_.add<double>("born", rows, [&](const ObjectLife& o) { return seconds_or_not(o.born_ns); });
    columns_.add<double>("died", rows, [&](const ObjectLife& o) { return seconds_or_not(o.died_ns); });
    columns_.add<double>("site", rows, [](const ObjectLife& o) { return o.call_site; });
    columns_.add<double>("away", rows, [](const ObjectLife& o) { return o.away_byte_seconds; });
    columns_.add<double>("awayNow", rows, [](const ObjectLife& o) { return o.away_bytes; });
    columns_.add<double>("session", rows, [](const ObjectLife& o) { return o.session; });
    columns_.add<float>("wait", rows,
                        [](const ObjectLife& o) { return static_cast<double>(o.wait_ns) / 1e9; });
    columns_.add<std::uint32_t>("evictions", rows, [](const ObjectLife& o) { return o.evictions; });
    columns_.add<std::uint32_t>("returns", rows, [](const ObjectLife& o) { return o.returns; });
    columns_.add<std::uint32_t>("waits", rows, [](const ObjectLife& o) { return o.waits; });
  }

  void add_absences() {
    const auto& rows = history_.absences;
    columns_.add<std::uint32_t>("awayObject", rows, [](const Absence& a) { return a.object; });
    columns_.add<float>("awayFrom", rows, [&](const Absence& a) { return seconds_at(a.from_ns); });
    columns_.add<float>("awayTo", rows, [&](const Absence& a) { return seconds_at(a.to_ns); });
    columns_.add<double>("awayOffset", rows, [&](const Absence& a) {
      const std::uint64_t first = history_.objects[a.object].address;
      return a.address - std::min(a.address, first);
    });
  }

  void add_waits() {
    const auto& rows = history_.waits;
    columns_.add<double>("waitSince", rows, [&](const ObjectWait& w) { return seconds_at(w.since_ns); });
    columns_.add<float>("waitSeconds", rows,
                        [](const ObjectWait& w) { return static_cast<double>(w.ns) / 1e9; });
    columns_.add<std::uint32_t>("waitObject", rows, [](const ObjectWait& w) { return w.object; });
    columns_.add<std::uint8_t>("waitCause", rows, [](const ObjectWait& w) { return w.cause; });
  }

  const Recording& recording_;
  const History& history_;
  Columns columns_;
};

std::string filled(std::string_view page, std::string_view mark, const std::string& with) {
  const std::size_t at = page.find(mark);
  return std::string(page.substr(0, at)) + with + std::string(page.substr(at + mark.size()));
}

}  // namespace

std::string html_of(const Recording& recording, const History& history) {
  const PageData data(recording, history);
  return filled(filled(page_html, "@HEAD@", data.head()), "@DATA@", data.data());
}

}  // namespace terrace::cli
