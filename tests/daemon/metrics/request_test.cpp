// Requests as clients send them, and as they should not.
#include "daemon/metrics/request.h"

#include <catch2/catch.hpp>

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

TEST_CASE("RequestsForMetricsAreKnown") {
  for (const char* text : {"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
                           "GET /metrics HTTP/1.0\r\n\r\n", "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
                           "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
                           "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /elsewhere HTTP/1.1\r\n\r\n"})
    CHECK(judge_metrics_request(text) == MetricsAnswer::metrics);
  CHECK(judge_metrics_request("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n") == MetricsAnswer::metrics_head);
}

TEST_CASE("AnyBeginningOfARequestIsNoneYet") {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n\r\n";
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    CHECK(judge_metrics_request(whole.substr(0, bytes)) == MetricsAnswer::not_yet);
  CHECK(judge_metrics_request(whole) == MetricsAnswer::metrics);
}

TEST_CASE("OtherPathsAndMethodsAreRefused") {
  for (const char* path : {"/", "/metrics/", "/metricsx", "//metrics", "/../metrics", "http://x/metrics"})
    CHECK(judge_metrics_request(std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n") ==
          MetricsAnswer::unknown_path);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "BREW"})
    CHECK(judge_metrics_request(std::string(method) + " /metrics HTTP/1.1\r\nHost: x\r\n\r\n") ==
          MetricsAnswer::wrong_method);
}

TEST_CASE("WhatIsNoRequestIsToldSo") {
  for (const char* text :
       {"hello\r\n\r\n", "\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", "GET /metrics HTTP/1.1\r\nA: b\001\r\n\r\n",
        "\026\003\001\002\r\n\r\n", "GET /met rics HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"})
    CHECK(judge_metrics_request(text) == MetricsAnswer::malformed);
}

TEST_CASE("ARequestWithoutEndIsTooLong") {
  const std::string begun = "GET /metrics HTTP/1.1\r\nX: ";
  CHECK(judge_metrics_request(begun + std::string(max_metrics_request - begun.size() - 1, 'x')) ==
        MetricsAnswer::not_yet);
  CHECK(judge_metrics_request(begun + std::string(max_metrics_request, 'x')) == MetricsAnswer::too_long);
  CHECK(judge_metrics_request(begun + std::string(max_metrics_request, 'x') + "\r\n\r\n") ==
        MetricsAnswer::too_long);
}

TEST_CASE("AnswersSayWhatTheyAre") {
  const std::string good = metrics_answer_head(MetricsAnswer::metrics, 123);
  CHECK_THAT(good,
             StartsWith("HTTP/1.1 200 OK\r\n") &&
                 Contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n") &&
                 Contains("Content-Length: 123\r\n") && Contains("Connection: close\r\n") &&
                 EndsWith("\r\n\r\n"));
  CHECK_THAT(metrics_answer_head(MetricsAnswer::wrong_method, 0),
             StartsWith("HTTP/1.1 405 ") && Contains("Allow: GET, HEAD\r\n") &&
                 Contains("Content-Length: 14\r\n") && EndsWith("\r\n\r\nAsk with GET.\n"));
  CHECK_THAT(metrics_answer_head(MetricsAnswer::unknown_path, 0), StartsWith("HTTP/1.1 404 "));
  CHECK_THAT(metrics_answer_head(MetricsAnswer::malformed, 0), StartsWith("HTTP/1.1 400 "));
  CHECK_THAT(metrics_answer_head(MetricsAnswer::late, 0), StartsWith("HTTP/1.1 408 "));
  CHECK_THAT(metrics_answer_head(MetricsAnswer::too_long, 0), StartsWith("HTTP/1.1 431 "));
}
