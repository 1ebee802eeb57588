// See request.h.
#include "daemon/metrics/request.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace terrace::daemon {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

MetricsAnswer judge_header(const http::request<http::empty_body>& request) {
  const auto target = request.target();
  const std::string_view path(target.data(), target.size());
  if (path.substr(0, path.find('?')) != "/metrics") return MetricsAnswer::unknown_path;
  if (request.method() == http::verb::head) return MetricsAnswer::metrics_head;
  return request.method() == http::verb::get ? MetricsAnswer::metrics : MetricsAnswer::wrong_method;
}

struct Told {
  std::string_view status, more_headers, body;
};

Told told(MetricsAnswer answer) {
  switch (answer) {
    case MetricsAnswer::unknown_path:
      return {"404 Not Found", "", "The metrics are at /metrics.\n"};
    case MetricsAnswer::wrong_method:
      return {"405 Method Not Allowed", "Allow: GET, HEAD\r\n", "Ask with GET.\n"};
    case MetricsAnswer::late:
      return {"408 Request Timeout", "", "The request took too long.\n"};
    case MetricsAnswer::too_long:
      return {"431 Request Header Fields Too Large", "", "The request is too long.\n"};
    default:
      return {"400 Bad Request", "", "This is no HTTP request.\n"};
  }
}

}  // namespace

MetricsAnswer judge_metrics_request(std::string_view received) {
  constexpr std::string_view end = "\r\n\r\n";
  const std::size_t at = received.substr(0, max_metrics_request).find(end);
  if (at == std::string_view::npos)
    return received.size() < max_metrics_request ? MetricsAnswer::not_yet : MetricsAnswer::too_long;
  http::request_parser<http::empty_body> parser;
  parser.header_limit(max_metrics_request);
  boost::system::error_code error;
  parser.put(boost::asio::buffer(received.data(), at + end.size()), error);
  return parser.is_header_done() ? judge_header(parser.get()) : MetricsAnswer::malformed;
}

std::string metrics_answer_head(MetricsAnswer answer, std::size_t metrics_bytes) {
  if (answer == MetricsAnswer::metrics || answer == MetricsAnswer::metrics_head)
    return fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content_type, metrics_bytes);
  const Told said = told(answer);
  return fmt::format(
      "HTTP/1.1 {}\r\n{}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n{}",
      said.status, said.more_headers, said.body.size(), said.body);
}

}  // namespace terrace::daemon
