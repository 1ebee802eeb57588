// Large JSON from outside, one element at a time.
//
// A profile of a training step has hundreds of thousands of events; as one tree of nlohmann::json it takes
// ten to thirty times the text's size in memory. Here the text is parsed as a stream of events (SAX), and
// only one element of a top-level array exists as a tree at any time. Whatever nobody asked for is skipped
// unbuilt. Depth and size of what is built are bounded, so a small file cannot take much memory either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::planner {

enum class Wanted : std::uint8_t { no, whole, elements, stop };  // stop: the rest does not matter

struct JsonStream {
  // Asked once for each field of the outermost object; `elements` is for arrays.
  std::function<Wanted(const std::string& key)> wanted;
  // Both return what is wrong, empty if nothing; the first complaint ends the parse.
  std::function<std::string(const std::string& key, const nlohmann::json& value)> whole;
  std::function<std::string(const std::string& key, std::size_t index, const nlohmann::json& value)> element;
  bool refuse_repeated_keys = true;  // other people's writers repeat some: there the last one counts
};

inline constexpr std::size_t most_json_depth = 64;
inline constexpr std::size_t most_json_values = std::size_t{1} << 21;  // in one element or whole field

// What is wrong, empty if nothing: not JSON (with line and column), not an object, or a complaint.
std::string stream_json(std::string_view text, const JsonStream& stream);

// One whole value, for short texts; nested deeper than most_json_depth counts as wrong. nlohmann's parser
// needs no stack for nesting, but its copies and dump() do.
Result<nlohmann::json> parse_json(std::string_view text);

// The checked fields of one object. The first mistake is kept in `error` as "ops[12].time_us: …"; what is
// returned after one has no meaning. `absent` given: the field may be missing and then counts as that.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string place, std::string* error);

  [[nodiscard]] bool has(const char* key) const;
  std::uint64_t whole(const char* key, std::uint64_t most, std::optional<std::uint64_t> absent = {});
  double amount(const char* key, double most, std::optional<double> absent = {});  // finite, not negative
  bool flag(const char* key, bool absent);
  std::string text(const char* key, std::size_t most_bytes, const std::optional<std::string>& absent = {});
  const nlohmann::json::array_t& list(const char* key, bool may_be_absent = false);

  void complain(const std::string& where_in_object, const std::string& what);
  // What is wrong with an object inside this one, its place included; empty: nothing.
  void take(const std::string& inner_error) {
    if (error_->empty()) *error_ = inner_error;
  }

 private:
  const nlohmann::json* find(const char* key, bool may_be_absent);

  const nlohmann::json& object_;
  std::string place_;
  std::string* error_;
};

std::string json_place(const std::string& array, std::size_t index);  // "ops[12]"
std::string in_quotes(std::string_view text);                         // for messages: cut to 60 bytes

// For the texts among the fields of the outermost object ("name": …). `error` as with JsonFields.
std::string outer_text(const std::string& key, const nlohmann::json& value, std::size_t most_bytes,
                       std::string* error);

// Format and version of our own files, in one place: "this is no terrace-trace", "version 2 is not known".
class FormatCheck {
 public:
  // `instead`: what to do about a file of an earlier version than `earliest`, after the message's semicolon.
  explicit FormatCheck(std::string format) : format_(std::move(format)) {}
  FormatCheck(std::string format, std::uint64_t earliest, std::uint64_t latest, std::string instead)
      : format_(std::move(format)), instead_(std::move(instead)), earliest_(earliest), latest_(latest) {}
  // For Wanted and whole: true if the key is one of the two.
  static bool concerns(const std::string& key) { return key == "format" || key == "version"; }
  std::string see(const std::string& key, const nlohmann::json& value);
  [[nodiscard]] std::string missing() const;  // at the end: what was never said

 private:
  std::string format_, instead_;
  std::uint64_t earliest_ = 1, latest_ = 1;
  bool format_seen_ = false;
  bool version_seen_ = false;
};

}  // namespace terrace::planner
