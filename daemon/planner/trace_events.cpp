#include "daemon/planner/trace_events.h"

#include <cstdio>

#include "daemon/planner/json_line.h"

namespace terrace::planner {

std::string TraceEvents::quoted(const std::string& text) { return json_line(text); }

std::string TraceEvents::number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

void TraceEvents::event(const std::string& body) { events_ += (events_.empty() ? "{" : ",\n{") + body + "}"; }

void TraceEvents::name_process(int process, const std::string& name) {
  event("\"ph\":\"M\",\"pid\":" + std::to_string(process) +
        ",\"name\":\"process_name\",\"args\":{\"name\":" + quoted(name) + "}");
}

void TraceEvents::name_track(int process, int track, const std::string& name) {
  event("\"ph\":\"M\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(track) +
        ",\"name\":\"thread_name\",\"args\":{\"name\":" + quoted(name) + "}");
}

void TraceEvents::slice(int process, int track, const std::string& name, double start_us, double end_us,
                        const std::string& args) {
  event("\"ph\":\"X\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(track) +
        ",\"name\":" + quoted(name) + ",\"ts\":" + number(start_us) +
        ",\"dur\":" + number(end_us - start_us) + ",\"args\":{" + args + "}");
}

void TraceEvents::half(const char* phase, int process, std::uint64_t id, const std::string& name,
                       double time_us) {
  event("\"ph\":\"" + std::string(phase) + "\",\"cat\":\"objects\",\"pid\":" + std::to_string(process) +
        ",\"tid\":0,\"id\":" + std::to_string(id) + ",\"name\":" + quoted(name) +
        ",\"ts\":" + number(time_us));
}

void TraceEvents::nested_slice(int process, std::uint64_t id, const std::string& name, double start_us,
                               double end_us) {
  half("b", process, id, name, start_us);
  half("e", process, id, name, end_us);
}

void TraceEvents::counter(int process, const std::string& name, double time_us, const std::string& unit,
                          std::uint64_t value) {
  event("\"ph\":\"C\",\"pid\":" + std::to_string(process) + ",\"name\":" + quoted(name) +
        ",\"ts\":" + number(time_us) + ",\"args\":{" + quoted(unit) + ":" + std::to_string(value) + "}");
}

std::string TraceEvents::text() const {
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
}

}  // namespace terrace::planner
