// What the text says of a registry: jobs, users and tiers, and those that are too many to be told apart.
#include "daemon/metrics/metrics_text.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <sstream>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;

namespace {

using terrace::tests::gib, terrace::tests::mib;

struct MetricsFixture {
  tests::TemporaryDirectory directory;
  Registry registry{8 * gib, Pools(directory.path(), 4 * gib, false), Limits{.jobs_apart = 4}};
  std::uint64_t now_ns = 1;

  SessionId join(const char* job, std::uint32_t uid, std::uint64_t budget = 64 * mib) {
    wire::Hello message = wire::make<wire::Hello>();
    wire::copy_text(message.job, sizeof message.job, job);
    message.requested_budget_bytes = budget;
    const Admission admission = registry.admit(message, Peer{1, uid, uid}, std::nullopt, now_ns);
    REQUIRE_FALSE(admission.refusal);
    registry.announcements();
    return admission.session->id();
  }
  void report(SessionId id, const std::map<wire::Stat, std::uint64_t>& counters) {
    Segment& segment = registry.find(id)->segment();
    void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
    REQUIRE(base != MAP_FAILED);
    auto* stats = reinterpret_cast<wire::JobStats*>(static_cast<std::byte*>(base) + segment.stats_offset());
    for (const auto& [stat, value] : counters) stats->set(stat, value);
    ::munmap(base, segment.bytes());
    registry.take_in(now_ns);
  }
  // Samples by name and labels.
  std::map<std::string, std::string> samples(std::uint64_t lowered = 0) const {
    std::map<std::string, std::string> found;
    std::istringstream text(metrics_text({registry, 1'700'000'000'000'000'000, lowered, 3, 4'000'000}));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with('#')) continue;
      const std::size_t space = line.rfind(' ');
      CHECK(found.emplace(line.substr(0, space), line.substr(space + 1)).second);  // each series once
    }
    return found;
  }
};

}  // namespace

TEST_CASE_METHOD(MetricsFixture, "AJobsSeriesAreThere") {
  const SessionId id = join("train", 1000, 2 * gib);
  report(id, {{wire::Stat::resident_bytes, gib},
              {wire::Stat::heap_live_bytes, 3 * gib},
              {wire::Stat::read_bytes, 12345},
              {wire::Stat::stall_ns, 1'500'000'000},
              {wire::Stat::zvc_content_bytes, 7},
              {wire::Stat::csr8_decompress_ns, 2'000'000'000}});
  auto found = samples(5);
  const std::string job = R"({job_name="train",uid="1000"})", user = R"({uid="1000"})";
  CHECK(found["terrace_job_budget_bytes" + job] == "2147483648");
  CHECK(found["terrace_job_granted_bytes" + job] == "2147483648");
  CHECK(found["terrace_job_resident_bytes" + job] == "1073741824");
  CHECK(found["terrace_job_heap_live_bytes" + job] == "3221225472");
  CHECK(found["terrace_job_read_bytes_total" + job] == "12345");
  CHECK(found["terrace_job_stall_seconds_total" + job] == "1.500000000");
  CHECK(found["terrace_job_sessions" + job] == "1");
  CHECK(found["terrace_user_jobs" + user] == "1");
  CHECK(found["terrace_user_read_bytes_total" + user] == "12345");
  CHECK(found["terrace_tier_capacity_bytes{tier=\"dram\"}"] == "8589934592");
  CHECK(found["terrace_tier_promised_bytes{tier=\"dram\"}"] == "2147483648");
  CHECK(found["terrace_tier_used_bytes{tier=\"dram\"}"] == "1073741824");
  CHECK(found["terrace_tier_lowered_bytes{tier=\"dram\"}"] == "5");
  CHECK(found["terrace_tier_capacity_bytes{tier=\"nvme\"}"] == "4294967296");
  CHECK(found["terrace_tier_out_bytes_total{tier=\"nvme\"}"] == "12345");
  CHECK(found["terrace_codec_content_bytes_total{codec=\"zvc\"}"] == "7");
  CHECK(found["terrace_codec_decompress_seconds_total{codec=\"csr8\"}"] == "2.000000000");
  CHECK(found["terrace_jobs"] == "1");
  CHECK(found["terrace_sessions_joined_total"] == "1");
  CHECK(found["terrace_start_time_seconds"] == "1700000000.000000000");
  CHECK(found["terrace_metrics_render_seconds_total"] == "0.004000000");
  CHECK_FALSE(found.contains("terrace_tier_writes_left_bytes{tier=\"nvme\"}"));  // nothing is limited
}

TEST_CASE_METHOD(MetricsFixture, "AnEndedJobKeepsItsTotalsAndNothingElse") {
  const SessionId id = join("train", 1000);
  report(id, {{wire::Stat::read_bytes, 100}, {wire::Stat::resident_bytes, mib}});
  registry.end(id, "closed", now_ns);
  auto found = samples();
  const std::string job = R"({job_name="train",uid="1000"})";
  CHECK(found["terrace_job_read_bytes_total" + job] == "100");
  CHECK_FALSE(found.contains("terrace_job_resident_bytes" + job));
  CHECK(found["terrace_jobs"] == "0");
  CHECK(found["terrace_tier_used_bytes{tier=\"dram\"}"] == "0");
  CHECK(found["terrace_tier_out_bytes_total{tier=\"nvme\"}"] == "100");
  report(join("train", 1000), {{wire::Stat::read_bytes, 11}});
  CHECK(samples()["terrace_job_read_bytes_total" + job] == "111");
}

TEST_CASE_METHOD(MetricsFixture, "AnEndedJobIsForgottenInTime") {
  registry.end(join("train", 1000), "closed", now_ns);
  now_ns += Tallies::keep_ns;
  join("next", 1000);
  CHECK_FALSE(samples().contains(R"(terrace_job_read_bytes_total{job_name="train",uid="1000"})"));
}

TEST_CASE_METHOD(MetricsFixture, "JobsBeyondTheBoundAreOneSeries") {
  for (int i = 0; i < 10; ++i)
    report(join(("job" + std::to_string(i)).c_str(), 1000 + static_cast<std::uint32_t>(i) * 7),
           {{wire::Stat::read_bytes, 1}, {wire::Stat::resident_bytes, 10}});
  auto found = samples();
  std::size_t jobs = 0, users = 0;
  for (const auto& [name, value] : found) {
    jobs += name.starts_with("terrace_job_read_bytes_total{") ? 1 : 0;
    users += name.starts_with("terrace_user_read_bytes_total{") ? 1 : 0;
  }
  CHECK(jobs == 5);
  CHECK(users == 5);
  CHECK(found[R"(terrace_job_read_bytes_total{job_name="other",uid="other"})"] == "6");
  CHECK(found[R"(terrace_job_resident_bytes{job_name="other",uid="other"})"] == "60");
  CHECK(found[R"(terrace_user_jobs{uid="other"})"] == "6");
  CHECK(found["terrace_jobs"] == "10");
}

TEST_CASE_METHOD(MetricsFixture, "ANameThatLooksLikeASampleIsAName") {
  join("x\"} 1\nterrace_jobs 99\n#", 1000);
  join("other", 1000);  // not the others'
  auto found = samples();
  CHECK(found["terrace_jobs"] == "2");
  CHECK(found.contains(R"(terrace_job_sessions{job_name="x\"} 1?terrace_jobs 99?#",uid="1000"})"));
  CHECK(found[R"(terrace_job_sessions{job_name="other",uid="1000"})"] == "1");
  CHECK(found[R"(terrace_job_sessions{job_name="other",uid="other"})"] == "0");
}

// Prometheus' and OpenMetrics' rules of names.
TEST_CASE_METHOD(MetricsFixture, "NamesFollowTheRules") {
  join("train", 1000);
  std::istringstream text(metrics_text({registry}));
  std::map<std::string, std::string> types, units;
  std::string line, last, family;
  const std::regex sample("([a-z_]+)(\\{.*\\})? [0-9.]+");
  while (std::getline(text, line)) {
    last = line;
    INFO(line);
    std::istringstream words(line);
    std::string hash, keyword, name, word;
    words >> hash >> keyword >> name >> word;
    if (line == "# EOF") break;
    if (keyword == "TYPE") {
      CHECK(types.emplace(name, word).second);  // a family is in one piece
      family = name;
      CHECK_FALSE((name.ends_with("_total") || name.ends_with("_info")));
    } else if (keyword == "UNIT") {
      units[name] = word;
      CHECK(name.ends_with("_" + word));
    } else if (keyword != "HELP") {
      std::smatch parts;
      REQUIRE(std::regex_match(line, parts, sample));
      const std::string suffix = types[family] == "counter" ? "_total"
                                 : types[family] == "info"  ? "_info"
                                                            : "";
      CHECK(parts[1] == family + suffix);
      CHECK(parts[1].str().starts_with("terrace_"));
    }
    if (keyword == "HELP" && (name.ends_with("_bytes") || name.ends_with("_seconds")))
      CHECK(units.contains(name));
  }
  CHECK(last == "# EOF");
  CHECK(types.size() > 60);
}
