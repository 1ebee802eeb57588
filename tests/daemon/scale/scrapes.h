// A Prometheus that is too eager: it asks for metrics again and again.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace terrace::tests::scale {

// One answer with its head; "" where there is none.
std::string scrape(const std::string& socket);
// Of a sample without labels.
std::optional<double> sample_of(const std::string& text, const std::string& name);

class Scraper {
 public:
  Scraper() = default;
  ~Scraper() { stop(); }
  Scraper(const Scraper&) = delete;

  // So many times a second, from now on.
  void start(const std::string& socket, unsigned per_second);
  void stop();
  std::uint64_t answers() const { return answers_; }
  std::uint64_t failures() const { return failures_; }

 private:
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> answers_{0}, failures_{0};
};

}  // namespace terrace::tests::scale
