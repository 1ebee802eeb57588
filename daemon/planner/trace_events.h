// Chrome's trace event format, which ui.perfetto.dev opens: JSON, written event by event, as a document tree
// of some 10^5 objects would take tens of times the text's memory. Times are microseconds. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::planner {

class TraceEvents {
 public:
  void name_process(int process, const std::string& name);
  void name_track(int process, int track, const std::string& name);
  // `args`: members of a JSON object, without its braces.
  void slice(int process, int track, const std::string& name, double start_us, double end_us,
             const std::string& args = "");
  // Slices of one id may lie within each other; those of different ids stand on tracks of their own.
  void nested_slice(int process, std::uint64_t id, const std::string& name, double start_us, double end_us);
  void counter(int process, const std::string& name, double time_us, const std::string& unit,
               std::uint64_t value);
  // The whole document.
  std::string text() const;

  static std::string quoted(const std::string& text);
  static std::string number(double value);

 private:
  void event(const std::string& body);
  void half(const char* phase, int process, std::uint64_t id, const std::string& name, double time_us);

  std::string events_;
};

}  // namespace terrace::planner
