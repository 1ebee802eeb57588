// Text in the OpenMetrics format, version 1.0.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): of
// each family its description, then its samples, and "# EOF" behind the last one.
//
//   # TYPE terrace_job_stall_seconds counter
//   # UNIT terrace_job_stall_seconds seconds
//   # HELP terrace_job_stall_seconds Time in which runs were waited for.
//   terrace_job_stall_seconds_total{job_name="train",uid="1000"} 12.000000345
//
// Names, units and help texts are ours; values of labels may be anybody's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace terrace::daemon {

enum class MetricType { counter, gauge, info };

// What a family is. Its name ends with its unit, and has no suffix of its type.
struct MetricFamily {
  std::string_view name;  // without "terrace_"
  MetricType type;
  std::string_view unit;  // "bytes", "seconds" or ""
  std::string_view help;  // a sentence
};

// `name="value"`, the value escaped (OpenMetrics, "Escaping": backslash, quote and line feed).
std::string metric_label(std::string_view name, std::string_view value);

class Exposition {
 public:
  // All samples until the next call are of this family.
  void begin(std::string_view prefix, const MetricFamily& family);
  // `labels`: of metric_label(), with commas between them; may be empty.
  void sample(std::string_view labels, std::uint64_t value);
  // Of a family in seconds.
  void sample_ns(std::string_view labels, std::uint64_t ns);
  // The whole text; nothing is added afterwards.
  std::string finish() &&;

 private:
  void begin_sample(std::string_view labels);

  std::string text_;
  std::string sample_name_;
};

}  // namespace terrace::daemon
