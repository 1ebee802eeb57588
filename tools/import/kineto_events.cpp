#include "tools/import/kineto_events.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_limits.h"

namespace terrace::import::kineto {

using planner::json_place;
using planner::JsonFields;
using planner::JsonStream;
using planner::most_tensor_bytes;
using planner::most_text_bytes;
using planner::most_time_us;
using planner::outer_text;
using planner::stream_json;
using planner::Wanted;

namespace {

using nlohmann::json;

constexpr std::size_t most_events = std::size_t{1} << 24;
constexpr std::size_t most_devices = 256;
constexpr std::uint64_t largest_number = ~std::uint64_t{0};
constexpr double latest_us = 1e17;  // 3,000 years after 1970

class EventReader {
 public:
  Result<Profile> read(std::string_view text);

 private:
  std::string event(std::size_t index, const json& e);
  void memory(const json& e, JsonFields* fields, std::size_t index);
  void duration_event(const json& e, JsonFields* fields);
  std::uint32_t thread(const json& e);
  std::uint32_t device(JsonFields* arguments);

  Profile profile_;
  std::unordered_map<std::string, std::uint32_t> threads_;
};

// A thread is a process and a number or a name in it.
std::uint32_t EventReader::thread(const json& e) {
  const std::string key = e.value("pid", json()).dump() + "/" + e.value("tid", json()).dump();
  return threads_.emplace(key, static_cast<std::uint32_t>(threads_.size())).first->second;
}

// c10::DeviceType: 0 is the CPU, 1 CUDA, 20 HIP.
std::uint32_t EventReader::device(JsonFields* arguments) {
  const std::uint64_t type = arguments->whole("Device Type", largest_number);
  const std::string id = arguments->has("Device Id") && type != 0
                             ? std::to_string(arguments->whole("Device Id", largest_number))
                             : "";
  const std::string kind = type == 0   ? "CPU"
                           : type == 1 ? "CUDA "
                                       : "device type " + std::to_string(type) + " ";
  std::vector<std::string>& devices = profile_.devices;
  const auto found = std::find(devices.begin(), devices.end(), kind + id);
  if (found != devices.end()) return static_cast<std::uint32_t>(found - devices.begin());
  if (devices.size() >= most_devices) arguments->complain("Device Id", "too many devices");
  devices.push_back(kind + id);
  return static_cast<std::uint32_t>(devices.size() - 1);
}

std::int64_t signed_bytes(const json& arguments, JsonFields* fields) {
  const json bytes = arguments.value("Bytes", json());
  const bool whole = bytes.is_number_integer() && !(bytes.is_number_unsigned() && bytes > most_tensor_bytes);
  if (!whole || bytes.get<std::int64_t>() < -static_cast<std::int64_t>(most_tensor_bytes)) {
    fields->complain("Bytes", "expected a number of bytes");
    return 0;
  }
  return bytes.get<std::int64_t>();
}

void EventReader::memory(const json& e, JsonFields* fields, std::size_t index) {
  const json arguments = e.value("args", json());
  if (!arguments.is_object()) return fields->complain("args", "expected an object");
  std::string error;
  JsonFields f(arguments, "args", &error);
  MemoryEvent m;
  m.thread = thread(e);
  m.device = device(&f);
  m.time_us = fields->amount("ts", latest_us);
  m.order = f.whole("Ev Idx", largest_number, index);
  m.address = f.whole("Addr", largest_number);
  m.bytes = signed_bytes(arguments, &f);
  // PyTorch prints totals that it does not know as -1.
  const json total = arguments.value("Total Allocated", json());
  m.allocated_bytes = total.is_number_unsigned() ? total.get<std::uint64_t>() : 0;
  if (!error.empty()) fields->complain({}, error);
  profile_.memory.push_back(m);
}

std::optional<std::uint64_t> correlation_of(const json& e) {
  const auto arguments = e.find("args");
  if (arguments == e.end() || !arguments->is_object()) return std::nullopt;
  const auto correlation = arguments->find("correlation");
  if (correlation == arguments->end() || !correlation->is_number_unsigned()) return std::nullopt;
  return correlation->get<std::uint64_t>();
}

void EventReader::duration_event(const json& e, JsonFields* fields) {
  const std::string category = fields->text("cat", most_text_bytes, "");
  const double begin = fields->amount("ts", latest_us);
  const double duration = fields->amount("dur", most_time_us);
  const std::optional<std::uint64_t> correlation = correlation_of(e);
  if (category == "cpu_op") {
    profile_.operators.push_back({fields->text("name", most_text_bytes), thread(e), begin, duration});
  } else if (category == "cuda_runtime" && correlation) {
    profile_.launches.push_back({thread(e), begin, *correlation});
  } else if ((category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") && correlation) {
    profile_.kernels.push_back({duration, *correlation});
  }
}

std::string EventReader::event(std::size_t index, const json& e) {
  if (index >= most_events) return "traceEvents: more than " + std::to_string(most_events);
  std::string error;
  JsonFields fields(e, json_place("traceEvents", index), &error);
  if (!error.empty()) return error;
  const json phase = e.value("ph", json());
  if (phase == "X") duration_event(e, &fields);
  if (phase == "i" && e.value("name", json()) == "[memory]") memory(e, &fields, index);
  return error;
}

Result<Profile> EventReader::read(std::string_view text) {
  JsonStream stream;
  stream.refuse_repeated_keys = false;
  stream.wanted = [](const std::string& key) {
    if (key == "traceEvents") return Wanted::elements;
    return key == "traceName" ? Wanted::whole : Wanted::no;
  };
  stream.whole = [this](const std::string& key, const json& value) {
    std::string error;
    profile_.name = outer_text(key, value, most_text_bytes, &error);
    return error;
  };
  stream.element = [this](const std::string&, std::size_t i, const json& e) { return event(i, e); };
  std::string error = stream_json(text, stream);
  if (!error.empty()) return refused<Profile>(std::move(error));
  return ok(std::move(profile_));
}

}  // namespace

Result<Profile> read_profile(std::string_view text) { return EventReader().read(text); }

}  // namespace terrace::import::kineto
