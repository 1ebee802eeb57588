// The record of promises: what is written is read, and what is damaged is not.
#include "daemon/promises/record.h"

#include <catch2/catch.hpp>

#include "daemon/promises/claims.h"
#include "tests/units.h"
#include "tiers/records/sealed.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using terrace::tests::gib;

namespace {

const std::string this_start = "6d0c4c1e-8f0a-4c43-9a55-0123456789ab";
const Promises some_jobs{{{1000, "train"}, {4 * gib, 3 * gib, gib}},
                         {{1000, "r\u00e9seau"}, {0, gib, 0}},
                         {{2000, "train"}, {gib, gib, 0}},
                         {{2000, "limited"}, {gib, gib, 0, {2 * gib, Arbiter::By::administrator}, 3}},
                         {{2000, "bounded"},
                          {0,
                           0,
                           0,
                           {},
                           0,
                           false,
                           {gib, Arbiter::By::owner},
                           {1, Arbiter::By::administrator},
                           {2 * gib, Arbiter::By::administrator},
                           3 * gib}},
                         {{3000, "paused"}, {0, 0, 0, {gib, Arbiter::By::owner}, 1, true}}};

std::string problem_of(const std::string& bytes) { return decode_promises(bytes, this_start).problem; }

}  // namespace

TEST_CASE("a record says what was written into it") {
  const DecodedPromises decoded = decode_promises(encode_promises(some_jobs, this_start), this_start);
  CHECK(decoded.problem.empty());
  CHECK(decoded.promises == some_jobs);
  CHECK(decode_promises(encode_promises({}, this_start), this_start).problem.empty());
}

// What the versions before wrote, for a daemon that is replaced while jobs run: no limit, no weight; then
// those, and no limit of tiers.
TEST_CASE("RecordsOfTheVersionsBeforeAreRead") {
  std::string bytes = encode_promises({{{1000, "train"}, {4 * gib, 3 * gib, gib}}}, this_start);
  bytes.resize(64 + 96);
  bytes[4] = 1;
  terrace::records::seal(&bytes);
  const DecodedPromises decoded = decode_promises(bytes, this_start);
  CHECK(decoded.problem.empty());
  CHECK(decoded.promises == Promises{{{1000, "train"}, {4 * gib, 3 * gib, gib}}});
  const Promises of_second{{{2000, "limited"}, {gib, gib, 0, {2 * gib, Arbiter::By::administrator}, 3}}};
  bytes = encode_promises(of_second, this_start);
  bytes.resize(64 + 112);
  bytes[4] = 2;
  terrace::records::seal(&bytes);
  CHECK(decode_promises(bytes, this_start).problem.empty());
  CHECK(decode_promises(bytes, this_start).promises == of_second);
  bytes = encode_promises(some_jobs, this_start);
  bytes.resize(bytes.size() - terrace::records::seal_bytes);
  bytes[4] = 3;
  std::string numbered = bytes;
  numbered[12] = 1;
  for (std::string* each : {&bytes, &numbered}) terrace::records::seal(each);
  CHECK(decode_promises(bytes, this_start).promises == some_jobs);
  CHECK_THAT(problem_of(numbered), Contains("too many entries"));
  for (const char version : {char{0}, char{5}}) {
    bytes = encode_promises(some_jobs, this_start);
    bytes[4] = version;
    CHECK_THAT(problem_of(bytes), Contains("version " + std::to_string(version)));
  }
}

TEST_CASE("OfTwoRecordsInAFileTheNewerWholeOneCounts") {
  const Promises few{{{1000, "train"}, {4 * gib, 3 * gib, gib}}};
  const auto file_of = [](std::string first, const std::string& second) {
    first.resize(record_places[1], 'x');  // what a longer one left behind it
    return first + second + std::string(100, 'x');
  };
  const auto promises_of = [](const std::string& bytes) {
    return decode_record_file(bytes, this_start).promises;
  };
  const std::string older = encode_promises(few, this_start, 7),
                    newer = encode_promises(some_jobs, this_start, 8);
  CHECK(promises_of(older) == few);
  CHECK(promises_of(file_of(older, newer)) == some_jobs);
  CHECK(promises_of(file_of(newer, older)) == some_jobs);
  std::string torn = newer;
  torn[200] ^= 1;
  CHECK(promises_of(file_of(older, torn)) == few);
  CHECK(promises_of(file_of(torn, older)) == few);
  CHECK(promises_of(file_of(encode_promises({}, this_start, 9), newer)).empty());
  CHECK_THAT(decode_record_file(file_of(torn, torn), this_start).problem, Contains("checksum"));
  CHECK(decode_record_file("", this_start).problem == "it is too short");
}

TEST_CASE("EveryFlippedBitOfARecordIsNoticed") {
  const std::string whole = encode_promises(some_jobs, this_start);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    REQUIRE_FALSE(problem_of(bytes).empty());
    REQUIRE(decode_promises(bytes, this_start).promises.empty());
  }
}

TEST_CASE("ARecordThatIsCutOrLongerIsRefused") {
  const std::string whole = encode_promises(some_jobs, this_start);
  for (std::size_t size = 0; size < whole.size(); ++size)
    REQUIRE_FALSE(problem_of(whole.substr(0, size)).empty());
  CHECK_FALSE(problem_of(whole + '\0').empty());
}

TEST_CASE("ARecordOfAnotherStartOfTheMachineIsRefused") {
  CHECK_THAT(problem_of(encode_promises(some_jobs, "another")), Contains("last start"));
}

// With a good checksum: whoever could write the file could write that.
TEST_CASE("EntriesThatNoDaemonWritesAreRefused") {
  const auto problem = [](const Promises& promises) {
    return problem_of(encode_promises(promises, this_start));
  };
  CHECK_THAT(problem({{{1, ""}, {}}}), Contains("entry 1"));
  CHECK_THAT(problem({{{1, "a\x1b[2J"}, {}}}), Contains("entry 1"));
  CHECK_THAT(problem({{{1, "a"}, {~std::uint64_t{0}, 0, 0}}}), Contains("entry 1"));
  CHECK_THAT(problem({{{1, "a"}, {0, 0, 0, {1, Arbiter::By::owner}}}}), Contains("entry 1"));
  CHECK_THAT(problem({{{1, "a"}, {0, 0, 0, {}, 1001}}}), Contains("entry 1"));
  CHECK_THAT(problem({{{1, "a"}, {0, 0, 0, {}, 0, false, {1, Arbiter::By::owner}}}}), Contains("entry 1"));
  CHECK_THAT(problem({{{1, "a"}, {.nvm_bytes = ~std::uint64_t{0}}}}), Contains("entry 1"));
  const std::string longest(64, 'x');
  CHECK(problem({{{1, longest}, {}}}).empty());
  CHECK_THAT(problem({{{1, longest + "a"}, {}}, {{1, longest + "b"}, {}}}), Contains("twice"));
}

TEST_CASE("a record has a bound") {
  Promises many;
  for (std::size_t i = 0; i < most_promises + 100; ++i) many[{1, "job" + std::to_string(i)}] = {};
  const std::string bytes = encode_promises(many, this_start);
  CHECK(bytes.size() == most_record_bytes());
  CHECK(decode_promises(bytes, this_start).promises.size() == most_promises);
}

TEST_CASE("of a claim no more is given than is on record, and what was granted once") {
  Claims claims(some_jobs);
  const JobKey job{1000, "train"};
  CHECK(claims.take(job, {8 * gib, 2 * gib, 8 * gib}) == Promise{4 * gib, 2 * gib, gib});
  CHECK(claims.take(job, {4 * gib, 2 * gib, 0}) == Promise{4 * gib, gib, 0});
  CHECK(claims.take(job, {4 * gib, gib, 0}).granted_bytes == 0);
  CHECK(claims.take({3000, "train"}, {gib, gib, gib}) == Promise{});
  CHECK(claims.has(job));
  claims.forget();
  CHECK_FALSE(claims.has(job));
}

// Any user may set a limit of his job: it must not spoil the record of all.
TEST_CASE("ALimitBeyondAllMemoryIsWrittenAsOneThatIsRead") {
  const Promises promises{{{1, "a"}, {0, 0, 0, {no_limit - 1, Arbiter::By::owner}}}};
  CHECK(problem_of(encode_promises(promises, this_start)).empty());
}

TEST_CASE("OfAPausedJobOnlyTheTermsAreClaimed") {
  Claims claims(some_jobs);
  const JobKey paused{3000, "paused"};
  CHECK_FALSE(claims.has(paused));
  CHECK(claims.take(paused, {gib, gib, gib}) == Promise{});
  CHECK(claims.terms(paused).limit.bytes == gib);
  CHECK(claims.terms({2000, "limited"}).weight == 3);
  CHECK(claims.terms({2000, "no such"}) == Promise{});
}
