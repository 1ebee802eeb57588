// The emulator itself: what it promises is what the other tests rely on.
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "compression/cuda/encode/look_back.cuh"

using namespace terrace::compression::cuda;

TEST_CASE("BallotGathersTheWarpsLanes") {
  std::vector<std::uint32_t> seen(64);
  simt::run({.threads = 64, .seed = 3},
            [&] { seen[simt::thread_index()] = simt::ballot(simt::thread_index() % 3 == 0); });
  for (std::uint32_t thread = 0; thread < 64; ++thread) {
    std::uint32_t expected = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      expected |= static_cast<std::uint32_t>((thread / 32 * 32 + lane) % 3 == 0) << lane;
    REQUIRE(seen[thread] == expected);
  }
}

TEST_CASE("ShufflesMoveValuesBetweenLanes") {
  std::vector<std::uint32_t> up(32), exchanged(32), sums(32);
  simt::run({.threads = 32, .seed = 5}, [&] {
    const std::uint32_t lane = simt::thread_index();
    up[lane] = simt::shuffle_up(lane, 3);
    exchanged[lane] = simt::shuffle_xor(lane, 5);
    sums[lane] = exclusive_sum(lane);
  });
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    REQUIRE(up[lane] == (lane < 3 ? lane : lane - 3));
    REQUIRE(exchanged[lane] == (lane ^ 5));
    REQUIRE(sums[lane] == lane * (lane - 1) / 2);
  }
}

TEST_CASE("AllInCtaJoinsAllThreadsAgainAndAgain") {
  std::vector<int> wrong(96, 0);
  simt::run({.threads = 96, .seed = 7}, [&] {
    for (std::uint32_t round = 0; round < 100; ++round) {
      const bool expected = round % 3 != 0;
      if (simt::all_in_cta(expected || simt::thread_index() != round % 96) != expected)
        ++wrong[simt::thread_index()];
    }
  });
  REQUIRE(std::accumulate(wrong.begin(), wrong.end(), 0) == 0);
}

TEST_CASE("ACtaInheritsNothingFromTheOneBefore") {
  int seen = 0;
  simt::run({.ctas = 5, .threads = 64, .seed = 1}, [&] {
    if (simt::all_in_cta(simt::thread_index() != 3 || simt::cta_index() % 2 == 1) &&
        simt::thread_index() == 0)
      ++seen;
  });
  REQUIRE(seen == 2);
}

TEST_CASE("AnAsynchronousCopyArrivesWhenItsThreadWaits") {
  alignas(16) const unsigned char from[16] = {1, 2, 3};
  bool early = true, late = false;
  simt::run({.threads = 32, .shared_bytes = 16}, [&] {
    if (simt::thread_index() == 0) simt::copy_async16(simt::shared_memory(), from);
    simt::sync_cta();
    if (simt::thread_index() == 0) early = simt::shared_memory()[1] == 2;
    simt::wait_copies();
    simt::sync_cta();
    if (simt::thread_index() == 31) late = simt::shared_memory()[1] == 2;
  });
  REQUIRE_FALSE(early);
  REQUIRE(late);
}

TEST_CASE("AMissingBarrierShowsUnderSomeSeed") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    simt::run({.threads = 64, .shared_bytes = 4, .seed = seed}, [&] {
      auto& word = *reinterpret_cast<std::uint32_t*>(simt::shared_memory());
      if (simt::thread_index() == 63) word = 1;
      if (simt::thread_index() == 0 && word != 1) ++wrong;
    });
  REQUIRE(wrong > 0);
  REQUIRE(wrong < 20);
}

TEST_CASE("LookBackSumsOverCtasThatRunTogether") {
  constexpr std::uint32_t blocks = 150, first = 40;  // two tensors
  for (std::uint64_t seed : {0, 1, 2, 3}) {
    std::vector<u64> progress(blocks), before(blocks);
    simt::run({.ctas = blocks, .threads = 32, .resident_ctas = 40, .seed = seed}, [&] {
      const std::uint32_t block = simt::cta_index(), begin = block < first ? 0 : first, units = block % 7;
      if (lane_index() == 0) publish_size(progress.data(), block, begin, units);
      simt::sync_cta();
      before[block] = look_back(progress.data(), block, begin, units);
    });
    for (std::uint32_t block = 0, sum = 0; block < blocks; ++block) {
      if (block == first) sum = 0;
      REQUIRE(before[block] == sum);
      sum += block % 7;
    }
  }
}
