// Budgets: met or refused, shared by demand within a job, never handed out twice.
#include "daemon/shares/arbiter.h"
#include "tests/units.h"

#include <catch2/catch.hpp>
#include <cerrno>

using namespace terrace::daemon;
using Catch::Matchers::Contains;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;
using By = Arbiter::By;
const JobKey a{1000, "a"}, b{1000, "b"}, c{1000, "c"};

// Lets every process shrink to what it was told until nothing changes any more.
void settle(Arbiter& arbiter, const std::map<SessionId, std::uint64_t>& live) {
  for (int i = 0; i < 100; ++i) {
    for (const auto& [id, bytes] : live)
      arbiter.observe(id, {std::min(bytes, arbiter.granted_bytes(id)), bytes});
    if (arbiter.rebalance().empty() && i != 0) return;
  }
  FAIL("budgets do not settle");
}

}  // namespace

TEST_CASE("a job alone gets what it asks for") {
  Arbiter arbiter(10 * gib);
  REQUIRE_FALSE(arbiter.admit(1, a, 4 * gib));
  CHECK(arbiter.rebalance() == std::vector<Change>{{1, 4 * gib}});
  CHECK(arbiter.rebalance().empty());
  CHECK(arbiter.granted_bytes(1) == 4 * gib);
}

TEST_CASE("a job that asks for nothing in particular gets what is left") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 4 * gib);
  arbiter.admit(2, b, 0);
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(2) == 6 * gib);
  arbiter.admit(3, c, 0);
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(2) == 3 * gib);
  CHECK(arbiter.granted_bytes(3) == 3 * gib);
}

TEST_CASE("BudgetThatDoesNotFitIsRefusedWithWhatIsLeft") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 7 * gib);
  const auto refusal = arbiter.admit(2, b, 4 * gib);
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK(refusal->available_bytes == 3 * gib);
  CHECK_THAT(refusal->reason, Contains("4.0 GiB") && Contains("3.0 GiB"));
  CHECK_FALSE(arbiter.admit(2, b, 3 * gib));
}

TEST_CASE("BudgetTooSmallToPageIsRefused") {
  Arbiter arbiter(10 * gib);
  const auto refusal = arbiter.admit(1, a, mib);
  REQUIRE(refusal);
  CHECK(refusal->error == EINVAL);
}

TEST_CASE("a refused process leaves no trace") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 11 * gib);
  CHECK(arbiter.promised_bytes() == 0);
  CHECK(arbiter.job_budget_bytes(a) == 0);
  CHECK_FALSE(arbiter.admit(2, a, 10 * gib));
}

TEST_CASE("processes of one job share one budget") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 2 * gib);
  REQUIRE_FALSE(arbiter.admit(2, a, 2 * gib));
  CHECK(arbiter.promised_bytes() == 2 * gib);
  settle(arbiter, {{1, 8 * gib}, {2, 8 * gib}});
  CHECK(arbiter.granted_bytes(1) == gib);
  CHECK(arbiter.granted_bytes(2) == gib);
}

TEST_CASE("an idle process leaves its part to the busy one") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 2 * gib);  // a shell
  arbiter.admit(2, a, 2 * gib);  // the training program
  settle(arbiter, {{1, 0}, {2, 8 * gib}});
  CHECK(arbiter.granted_bytes(1) == Arbiter::starting_bytes);
  CHECK(arbiter.granted_bytes(2) == 2 * gib - Arbiter::starting_bytes);
}

TEST_CASE("the budget of a process that left goes to the others") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 2 * gib);
  arbiter.admit(2, a, 2 * gib);
  settle(arbiter, {{1, 8 * gib}, {2, 8 * gib}});
  arbiter.leave(1);
  CHECK(arbiter.rebalance() == std::vector<Change>{{2, 2 * gib}});
  arbiter.leave(2);
  CHECK(arbiter.promised_bytes() == 0);
}

// Process 1 was granted all 2 GiB of its job and says what it uses of it; process 2 joins and needs half.
struct OneGivesToAnother {
  Arbiter arbiter{10 * gib};

  void join_beside(const Demand& of_giver) {
    arbiter.admit(1, a, 2 * gib);
    arbiter.rebalance();
    arbiter.observe(1, of_giver);
    arbiter.admit(2, a, 2 * gib);
    arbiter.observe(2, {0, 8 * gib, Arbiter::starting_bytes});
    arbiter.rebalance();
    CHECK(arbiter.granted_bytes(1) == gib);
    CHECK(arbiter.granted_bytes(2) == Arbiter::starting_bytes);
  }
  std::uint64_t granted_after(const Demand& of_giver) {
    arbiter.observe(1, of_giver);
    arbiter.rebalance();
    return arbiter.granted_bytes(2);
  }
};

TEST_CASE_METHOD(OneGivesToAnother, "a raise waits until the giver has given") {
  join_beside({2 * gib, 8 * gib});  // it holds all
  CHECK(granted_after({gib, 8 * gib}) == gib);
}

TEST_CASE_METHOD(OneGivesToAnother, "a raise waits until the giver goes by its lower grant") {
  join_beside({gib / 2, 8 * gib, 2 * gib});
  // It has not heard of it, and may take 2 GiB.
  CHECK(granted_after({gib / 2, 8 * gib, 2 * gib}) == Arbiter::starting_bytes);
  CHECK(arbiter.is_waited_for(1));
  CHECK(granted_after({gib + gib / 4, 8 * gib, gib}) == 3 * gib / 4);  // which it did in part
  CHECK(granted_after({gib, 8 * gib, gib}) == gib);
}

TEST_CASE_METHOD(OneGivesToAnother, "a giver that does not answer is not waited for longer than a second") {
  const Demand deaf{gib / 2, 8 * gib, 2 * gib};
  join_beside(deaf);
  unsigned rounds = 0;
  for (; granted_after(deaf) < gib && rounds < Arbiter::patience_rounds; ++rounds)
    CHECK(arbiter.end_round().empty());
  CHECK(rounds == hearing_rounds);
}

TEST_CASE("small swings of demand are not announced") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 2 * gib);
  arbiter.admit(2, a, 2 * gib);
  settle(arbiter, {{1, 500 * mib}, {2, 8 * gib}});
  arbiter.observe(1, {500 * mib, 510 * mib});
  CHECK(arbiter.rebalance().empty());
}

TEST_CASE("a process that comes back keeps what it held") {
  Arbiter arbiter(4 * gib);
  CHECK(arbiter.readmit(1, a, 3 * gib, 2 * gib));
  CHECK(arbiter.granted_bytes(1) == 2 * gib);
  CHECK(arbiter.promised_bytes() == 3 * gib);
  CHECK(arbiter.readmit(2, b, 0, gib));
  CHECK(arbiter.granted_bytes(2) == gib);
}

TEST_CASE("coming back is promised no more than is left, and nobody else's") {
  Arbiter arbiter(4 * gib);
  arbiter.admit(1, a, 3 * gib);
  CHECK_FALSE(arbiter.readmit(2, b, 3 * gib, 3 * gib));
  CHECK(arbiter.granted_bytes(2) == gib);
  CHECK(arbiter.promised_bytes() == 4 * gib);
  CHECK_FALSE(arbiter.readmit(3, c, 3 * gib, 3 * gib));  // nothing is left: it shares
  CHECK(arbiter.granted_bytes(3) == Arbiter::minimum_bytes);
  CHECK(arbiter.promised_bytes() == 4 * gib);
  CHECK(arbiter.readmit(4, a, 2 * gib, gib));  // its job has a promise already
  CHECK(arbiter.promised_bytes() == 4 * gib);
  arbiter.leave(1);
  arbiter.leave(4);
  settle(arbiter, {{2, 8 * gib}, {3, 8 * gib}});
  CHECK(arbiter.granted_bytes(3) == 3 * gib);
  CHECK(arbiter.readmit(5, a, 1, 1));
  CHECK(arbiter.job_budget_bytes(a) == Arbiter::minimum_bytes);
}

TEST_CASE("a claim to have held more than the machine has is cut to the machine") {
  Arbiter arbiter(4 * gib);
  arbiter.readmit(1, a, ~std::uint64_t{0}, ~std::uint64_t{0});
  CHECK(arbiter.granted_bytes(1) == 4 * gib);
  CHECK(arbiter.promised_bytes() == 4 * gib);
}

TEST_CASE("an administrator's budget holds until the job ends") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 2 * gib);
  arbiter.rebalance();
  REQUIRE_FALSE(arbiter.set_job_budget(a, 5 * gib, By::administrator));
  CHECK(arbiter.rebalance() == std::vector<Change>{{1, 5 * gib}});
  REQUIRE_FALSE(arbiter.admit(2, a, 9 * gib));
  CHECK(arbiter.job_budget_bytes(a) == 5 * gib);
  CHECK(arbiter.set_job_budget(a, 11 * gib, By::administrator)->error == ENOSPC);
  CHECK(arbiter.set_job_budget(b, gib, By::administrator)->error == ENOENT);
}

TEST_CASE("a smaller machine budget takes from those who asked for nothing") {
  Arbiter arbiter(10 * gib);
  arbiter.admit(1, a, 4 * gib);
  arbiter.admit(2, b, 0);
  arbiter.rebalance();
  arbiter.set_machine_budget(5 * gib);
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(1) == 4 * gib);
  CHECK(arbiter.granted_bytes(2) == gib);
}
