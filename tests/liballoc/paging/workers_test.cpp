// The workers alone: every job is done once, by whoever, and what is computed is what the caller would have.
#include "liballoc/paging/transfers/workers.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool may_start_threads_in_child = false;  // where the parent had several
#else
constexpr bool may_start_threads_in_child = true;
#endif

void wait_for(const Job& job) {
  while (!job.is_done.load(std::memory_order_acquire)) std::this_thread::yield();
}

// Ends them before the memory of the jobs goes.
struct Started {
  explicit Started(unsigned count, Workers::Work* work = nullptr) {
    work == nullptr ? workers.start(count) : workers.start(count, work);
  }
  ~Started() { workers.stop(); }
  // Until it is done and back.
  void do_one(Job& job) {
    workers.give(job);
    wait_for(job);
    workers.took_back();
  }
  Workers workers{nullptr};
};

void count_job(Job& job, CodecScratch*) { ++job.sum_ns; }

}  // namespace

TEST_CASE("Nobody works where no workers were asked for") {
  Started s(0);
  CHECK_FALSE(s.workers.are_there());
  CHECK(s.workers.given() == 0);
}

TEST_CASE("No more workers start than there may be") {
  Started s(1000);
  CHECK(s.workers.are_there());
}

TEST_CASE("A worker's sums are those of the caller") {
  Started s(2);
  test::Region run(run_bytes);
  test::fill(run.base(), 4);
  auto job = std::make_unique<Job>();
  job->data = run.base();
  job->pages = PageSet::of({3, 400});
  job->pages.add(511U);
  s.do_one(*job);
  auto expected = std::make_unique<PageSums>();
  expected->take(run.base(), job->pages);
  std::size_t wrong = 0;
  for (std::uint32_t page = 0; page < pages_per_run; ++page)
    wrong += job->pages.has(page) && job->sums.of[page] != expected->of[page] ? 1 : 0;
  CHECK(wrong == 0);
  CHECK(s.workers.given() == 0);
}

TEST_CASE("A worker compresses a run and another makes it whole again") {
  Started s(2);
  test::Region run(run_bytes), buffer(2 * run_bytes), frame(run_bytes);
  test::fill(run.base(), 1);  // two thirds are zeros
  auto job = std::make_unique<Job>();
  job->kind = Job::Kind::encode;
  job->encoding = {.run = run.base(),
                   .buffer = buffer.base(),
                   .codec = compression::Codec::zvc,
                   .element = compression::ElementType::f64,
                   .generation = 5};
  s.do_one(*job);
  const std::uint32_t bytes = job->encoding.bytes;
  REQUIRE(bytes > 0);
  REQUIRE(bytes < run_bytes);
  std::memcpy(RunFrame::place(frame.base(), bytes), buffer.base(), bytes);
  job->kind = Job::Kind::decode;
  SECTION("right") {
    job->decoding = {.frame = frame.base(), .bytes = bytes, .generation = 5, .sum = job->encoding.sum};
    s.do_one(*job);
    CHECK(job->decoding.is_intact);
    CHECK(test::holds(frame.base(), 1));
  }
  SECTION("an older one") {
    job->decoding = {.frame = frame.base(), .bytes = bytes, .generation = 4, .sum = job->encoding.sum};
    s.do_one(*job);
    CHECK_FALSE(job->decoding.is_intact);
  }
}

TEST_CASE("Every job is done once") {
  Started s(GENERATE(1U, 3U, 16U), &count_job);
  const auto jobs = std::make_unique<Job[]>(Workers::most_jobs);
  constexpr unsigned rounds = 400;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned count = 1 + round % Workers::most_jobs;
    for (unsigned i = 0; i < count; ++i) s.workers.give(jobs[i]);
    CHECK(s.workers.given() == count);
    for (unsigned i = 0; i < count; ++i) {
      wait_for(jobs[i]);
      s.workers.took_back();
    }
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));  // they fall asleep
  }
  std::size_t wrong = 0;
  for (unsigned i = 0; i < Workers::most_jobs; ++i) {
    unsigned given = 0;
    for (unsigned round = 0; round < rounds; ++round) given += i <= round % Workers::most_jobs ? 1 : 0;
    wrong += jobs[i].sum_ns != given ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Workers that have ended can start again") {
  Started s(2, &count_job);
  s.workers.stop();
  CHECK_FALSE(s.workers.are_there());
  s.workers.start(1, &count_job);
  Job job;
  s.do_one(job);
  CHECK(job.sum_ns == 1);
}

TEST_CASE("A forked child has no workers, and may start its own") {
  Started s(2, &count_job);
  Job job;
  s.do_one(job);
  s.workers.give(job);
  CHECK(test::in_child([&] {
          s.workers.reset_in_child();
          if (s.workers.are_there() || s.workers.given() != 0) return 1;
          if (!may_start_threads_in_child) return 0;
          Job own;
          s.workers.start(1, &count_job);
          s.do_one(own);
          return own.sum_ns == 1 ? 0 : 2;
        }) == 0);
  wait_for(job);
  s.workers.took_back();
}

}  // namespace terrace::liballoc
