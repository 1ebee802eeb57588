// What an HTTP client asks of the metrics, and what it is told. Boost.Beast's parser reads the request
// (RFC 9112); this decides. Each connection has one request: what follows it is not read, and the answer says
// that the connection ends. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace terrace::daemon {

enum class MetricsAnswer {
  not_yet,  // the request goes on
  metrics,
  metrics_head,  // what `metrics` would be, without its body
  malformed,
  unknown_path,
  wrong_method,
  late,
  too_long
};

inline constexpr std::size_t max_metrics_request = 8192;  // to the end of its header

// By all that was received so far; whatever it is, it has an answer once it is max_metrics_request long.
MetricsAnswer judge_metrics_request(std::string_view received);

// The head of the answer, with its body where it is no metrics. `metrics_bytes`: of the body that follows.
std::string metrics_answer_head(MetricsAnswer answer, std::size_t metrics_bytes);

}  // namespace terrace::daemon
