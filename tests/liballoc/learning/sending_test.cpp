// When what was learned is sent.
#include "tests/liballoc/learning/learning_program.h"

namespace terrace::liballoc {

using namespace test;

TEST_CASE("A plan is asked for again when the budget is another and not before") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  for (int i = 0; i < 12; ++i) {  // until what is learned has settled
    program.step();
    program.offer();
  }
  const int settled = program.sink.taken;
  for (int i = 0; i < 3; ++i) {
    program.step();
    program.offer();
  }
  CHECK(program.sink.taken == settled);
  f.pager.set_budget(60 * run_bytes);
  program.step();
  program.offer();
  CHECK(program.sink.taken == settled + 1);
  CHECK(program.sink.header().budget_bytes == f.pager.budget().bytes());
}

TEST_CASE("A daemon that does not read now is asked again with the same image") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.sink.answer = EAGAIN;
  for (int i = 0; i < 40 && program.sink.asked == 0; ++i) {
    program.step();
    program.offer();
  }
  REQUIRE(program.sink.asked == 1);
  program.sink.answer = 0;
  program.offer();
  CHECK(program.sink.taken == 1);
  CHECK(is_sound(program.sink));
}

TEST_CASE("Images are a second apart") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  f.pager.set_budget(60 * run_bytes);
  program.step();
  program.offer();
  REQUIRE(program.sink.taken == 2);
  f.pager.set_budget(50 * run_bytes);
  program.step();
  f.pager.learner().offer(program.sink, program.now + 900'000'000);
  CHECK(program.sink.taken == 2);
  f.pager.learner().offer(program.sink, program.now + 1'100'000'000);
  CHECK(program.sink.taken == 3);
}

}  // namespace terrace::liballoc
