// Requests for metrics as anybody may send them, whole and in pieces: what the beginning of one means does
// not change with what follows, and every one has an answer in the end.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "daemon/metrics/request.h"

using namespace terrace::daemon;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const MetricsAnswer whole = judge_metrics_request(text);
  MetricsAnswer in_pieces = MetricsAnswer::not_yet;
  for (std::size_t bytes = 0; bytes <= size && in_pieces == MetricsAnswer::not_yet; ++bytes)
    in_pieces = judge_metrics_request(std::string_view(text).substr(0, bytes));
  if (in_pieces != whole) std::abort();
  const MetricsAnswer filled = judge_metrics_request(text + std::string(max_metrics_request, 'x'));
  if (filled == MetricsAnswer::not_yet) std::abort();
  if (whole != MetricsAnswer::not_yet && filled != whole) std::abort();
  const std::string head = metrics_answer_head(filled, 0);
  if (!head.starts_with("HTTP/1.1 ") || head.find("\r\n\r\n") == std::string::npos) std::abort();
  return 0;
}
