// A probed run is a run like any other: its bytes are right whatever happens to it.
#include "tests/liballoc/learning/learning_program.h"

namespace terrace::liballoc {

using namespace test;

TEST_CASE("A probed run is right after a fork") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool has_forked = false;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    if (probed_runs(f) == 0 || has_forked) return;
    has_forked = true;
    f.pager.forking().prepare(1'000'000);
    f.pager.forking().seal();
    CHECK(probed_runs(f) == 0);
    CHECK(in_child([&] {
            for (std::size_t i = 0; i < layers; ++i)
              if (!holds(outputs[i], i, Program::bytes_of(i))) return 1;
            return 0;
          }) == 0);
    f.pager.forking().after_in_parent(true);
    f.check();
  };
  program.run(10);
  CHECK(has_forked);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probed run that the program drops reads as zeroes") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool has_dropped = false;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    for (std::size_t i = 0; i < layers && !has_dropped; ++i) {
      const std::uint32_t n = f.run_of(outputs[i]);
      if (!f.pager.run(n).probed) continue;
      has_dropped = true;
      // Half of it, as MADV_DONTNEED leaves it, and then all.
      std::byte* const begin = f.pager.runs().address(n);
      os::advise(begin, run_bytes / 2, MADV_DONTNEED);
      f.pager.forget(begin, begin + run_bytes / 2);
      f.check();
      CHECK(f.reads_zero(begin, run_bytes / 2));
      const bool is_first_run = begin == outputs[i];
      std::atomic<bool> is_right{false};
      f.with([&] {
        bool right = true;
        const auto* words = reinterpret_cast<const std::uint64_t*>(begin);
        const std::size_t offset = (begin - outputs[i]) / sizeof(std::uint64_t);
        for (std::size_t w = run_bytes / 16; w < run_bytes / 8; ++w)
          right &= words[w] == word_of(i, offset + w);
        is_right = right;
      });
      CHECK(is_right);
      CHECK(is_first_run);
      f.write(outputs[i], i, Program::bytes_of(i));
    }
    for (std::size_t i = 0; i < layers; ++i) {
      const std::uint32_t n = f.run_of(outputs[i]);
      if (!f.pager.run(n).probed) continue;
      std::byte* const begin = f.pager.runs().address(n);
      os::advise(begin, run_bytes, MADV_DONTNEED);
      f.pager.forget(begin, begin + run_bytes);
      f.check();
      CHECK(f.reads_zero(begin, run_bytes));
      f.write(outputs[i], i, Program::bytes_of(i));
      break;
    }
  };
  program.run(10);
  CHECK(has_dropped);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probed run may be advised away and freed") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool has_left = false;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    for (std::size_t i = 0; i < layers && !has_left; ++i) {
      const std::uint32_t n = f.run_of(outputs[i]);
      if (!f.pager.run(n).probed) continue;
      has_left = true;
      f.page_out(outputs[i], Program::bytes_of(i));
      CHECK(f.state(outputs[i]) == RunState::stored);
      CHECK_FALSE(f.pager.run(n).probed);
    }
  };
  program.run(10);
  CHECK(has_left);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probed run may be freed") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  std::size_t freed = 0;
  program.in_the_middle = [&](const std::vector<std::byte*>&) {
    for (std::size_t i = 0; i < weights; ++i) {
      if (!f.pager.run(f.run_of(program.kept[i])).probed) continue;
      ++freed;
      f.release(program.kept[i]);
      f.check();
      program.kept[i] = f.allocate_filled(2 * run_bytes, 100 + i);
    }
  };
  program.run(10);
  CHECK(freed > 0);
  CHECK(program.wrong == 0);
  f.check();
}

}  // namespace terrace::liballoc
