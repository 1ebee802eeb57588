#include "daemon/planner/json_stream.h"

#include <cmath>
#include <utility>

namespace terrace::planner {
namespace {

using nlohmann::json;

std::string nested_too_deep() { return "nested deeper than " + std::to_string(most_json_depth); }

// The events of nlohmann's parser, put together to trees where somebody wants them. `depth_` counts open
// containers, the outermost object included; `open_` are the containers of the tree under construction.
class Handler {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit Handler(const JsonStream& stream) : stream_(stream) {}

  bool null() { return scalar(nullptr); }
  bool boolean(bool b) { return scalar(b); }
  bool number_integer(number_integer_t n) { return scalar(n); }
  bool number_unsigned(number_unsigned_t n) { return scalar(n); }
  bool number_float(number_float_t n, const string_t&) { return scalar(n); }
  bool string(string_t& s) { return scalar(std::move(s)); }
  bool binary(binary_t&) { return fail("binary values are no JSON"); }

  bool start_object(std::size_t) { return open(json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_array() { return close(); }
  bool key(string_t& k);
  bool parse_error(std::size_t, const std::string&, const json::exception& e) { return fail(e.what()); }

  std::string error;
  bool stopped = false;  // on request

 private:
  bool fail(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  [[nodiscard]] bool at_element() const { return mode_ == Wanted::elements && depth_ == 2; }
  [[nodiscard]] bool at_field() const { return depth_ == 1; }
  bool scalar(json value);
  bool open(json container);
  bool close();
  bool finished(const json& value);
  json* add(json value);

  const JsonStream& stream_;
  Wanted mode_ = Wanted::no;
  std::string field_;  // of the outermost object
  std::size_t index_ = 0;
  std::size_t depth_ = 0;
  std::size_t values_ = 0;
  json tree_;
  std::vector<json*> open_;
  std::string key_;  // of the innermost open object
};

bool Handler::key(string_t& k) {
  if (depth_ == 1) {
    field_ = k;
    mode_ = stream_.wanted(k);
    stopped = mode_ == Wanted::stop;
    return !stopped;
  }
  if (open_.empty()) return true;
  if (stream_.refuse_repeated_keys && open_.back()->contains(k)) {
    return fail(json_place(field_, index_) + ": the field " + in_quotes(k) + " stands there twice");
  }
  key_ = std::move(k);
  return true;
}

json* Handler::add(json value) {
  json& parent = *open_.back();
  if (parent.is_array()) {
    parent.push_back(std::move(value));
    return &parent.back();
  }
  return &(parent[key_] = std::move(value));
}

bool Handler::scalar(json value) {
  if (depth_ == 0) return fail("the document is no JSON object");
  if (mode_ == Wanted::no) return true;
  if (!open_.empty()) {
    if (++values_ > most_json_values) return fail(field_ + ": too many values in one element");
    add(std::move(value));
    return true;
  }
  if (at_field() && mode_ == Wanted::elements) return fail(field_ + ": expected a list");
  return finished(value);
}

bool Handler::open(json container) {
  if (++depth_ > most_json_depth) return fail(nested_too_deep());
  if (depth_ == 1) return container.is_object() || fail("the document is no JSON object");
  if (mode_ == Wanted::no) return true;
  if (mode_ == Wanted::elements && depth_ == 2) {
    index_ = 0;
    return container.is_array() || fail(field_ + ": expected a list");
  }
  if (open_.empty()) {
    tree_ = std::move(container);
    values_ = 0;
    open_.push_back(&tree_);
    return true;
  }
  if (++values_ > most_json_values) return fail(field_ + ": too many values in one element");
  open_.push_back(add(std::move(container)));
  return true;
}

bool Handler::close() {
  --depth_;
  if (open_.empty()) return true;
  open_.pop_back();
  return !open_.empty() || finished(tree_);
}

bool Handler::finished(const json& value) {
  std::string wrong;
  if (at_element()) {
    wrong = stream_.element(field_, index_++, value);
  } else {
    wrong = stream_.whole(field_, value);
  }
  return wrong.empty() || fail(std::move(wrong));
}

// nlohmann's messages begin with "[json.exception.parse_error.101] parse error ".
std::string plain(std::string message) {
  if (!message.starts_with("[json.exception.")) return message;
  const std::size_t end = message.find("] ");
  return "not valid JSON: " + (end == std::string::npos ? message : message.substr(end + 2));
}

}  // namespace

std::string stream_json(std::string_view text, const JsonStream& stream) {
  Handler handler(stream);
  if (json::sax_parse(text.begin(), text.end(), &handler) || handler.stopped) return {};
  return plain(handler.error.empty() ? "not valid JSON" : handler.error);
}

Result<json> parse_json(std::string_view text) {
  bool too_deep = false;
  // `depth` is the number of containers around the one that begins.
  const auto keep = [&too_deep](int depth, json::parse_event_t event, json&) {
    const bool begins =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    too_deep = too_deep || (begins && static_cast<std::size_t>(depth) >= most_json_depth);
    return !too_deep;
  };
  json value = json::parse(text.begin(), text.end(), keep, false);
  if (too_deep) return refused<json>(nested_too_deep());
  if (value.is_discarded()) return refused<json>("not valid JSON");
  return ok(std::move(value));
}

std::string json_place(const std::string& array, std::size_t index) {
  return array + "[" + std::to_string(index) + "]";
}

std::string in_quotes(std::string_view text) {
  std::string all = "\"";
  all.append(text.substr(0, 60));
  all.append(text.size() > 60 ? "…\"" : "\"");
  return all;
}

std::string outer_text(const std::string& key, const json& value, std::size_t most_bytes,
                       std::string* error) {
  json object = json::object();
  object[key] = value;
  return JsonFields(object, {}, error).text(key.c_str(), most_bytes);
}

JsonFields::JsonFields(const json& object, std::string place, std::string* error)
    : object_(object), place_(std::move(place)), error_(error) {
  if (!object.is_object()) complain({}, "expected an object");
}

void JsonFields::complain(const std::string& where_in_object, const std::string& what) {
  if (!error_->empty()) return;
  const bool dot = !place_.empty() && !where_in_object.empty();
  *error_ = place_ + (dot ? "." : "") + where_in_object + ": " + what;
}

bool JsonFields::has(const char* key) const {
  return object_.is_object() && object_.contains(key) && !object_.at(key).is_null();
}

const json* JsonFields::find(const char* key, bool may_be_absent) {
  if (has(key)) return &object_.at(key);
  if (!may_be_absent) complain(key, "missing");
  return nullptr;
}

std::uint64_t JsonFields::whole(const char* key, std::uint64_t most, std::optional<std::uint64_t> absent) {
  const json* value = find(key, absent.has_value());
  if (value == nullptr) return absent.value_or(0);
  if (!value->is_number_unsigned()) {
    complain(key, "expected a whole number that is not negative");
    return 0;
  }
  const auto n = value->get<std::uint64_t>();
  if (n > most) complain(key, std::to_string(n) + " is over the limit of " + std::to_string(most));
  return n;
}

double JsonFields::amount(const char* key, double most, std::optional<double> absent) {
  const json* value = find(key, absent.has_value());
  if (value == nullptr) return absent.value_or(0);
  const double n = value->is_number() ? value->get<double>() : -1;
  if (!std::isfinite(n) || n < 0) {
    complain(key, "expected a number that is not negative");
  } else if (n > most) {
    complain(key, value->dump() + " is over the limit of " + json(most).dump());
  }
  return n;
}

bool JsonFields::flag(const char* key, bool absent) {
  const json* value = find(key, true);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) complain(key, "expected true or false");
  return value->is_boolean() && value->get<bool>();
}

std::string JsonFields::text(const char* key, std::size_t most_bytes,
                             const std::optional<std::string>& absent) {
  const json* value = find(key, absent.has_value());
  if (value == nullptr) return absent.value_or("");
  if (!value->is_string()) {
    complain(key, "expected a text");
    return {};
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > most_bytes) complain(key, "longer than " + std::to_string(most_bytes) + " bytes");
  return text;
}

const json::array_t& JsonFields::list(const char* key, bool may_be_absent) {
  static const json::array_t none;
  const json* value = find(key, may_be_absent);
  if (value == nullptr) return none;
  if (value->is_array()) return value->get_ref<const json::array_t&>();
  complain(key, "expected a list");
  return none;
}

std::string FormatCheck::see(const std::string& key, const json& value) {
  if (key == "format") {
    format_seen_ = true;
    return value == format_ ? ""
                            : "this is no " + format_ + ": its format says " + value.dump().substr(0, 80);
  }
  version_seen_ = true;
  const bool number = value.is_number_unsigned();
  const std::uint64_t version = number ? value.get<std::uint64_t>() : 0;
  if (number && earliest_ <= version && version <= latest_) return {};
  const std::string known = earliest_ == latest_ ? "version " + std::to_string(latest_) + " is"
                                                 : "versions " + std::to_string(earliest_) + " to " +
                                                       std::to_string(latest_) + " are";
  return "version " + value.dump().substr(0, 40) + " of " + format_ + " is not known here, only " + known +
         (number && version < earliest_ && !instead_.empty() ? "; " + instead_ : "");
}

std::string FormatCheck::missing() const {
  if (!format_seen_) return "this is no " + format_ + ": the field \"format\" is missing";
  if (!version_seen_) return "the field \"version\" is missing";
  return {};
}

}  // namespace terrace::planner
