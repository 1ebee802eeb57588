// Which codec is chosen follows from what was measured, and from nothing else.
#include "liballoc/gpu/offload/codec/codec_choice.h"
#include "tests/units.h"

#include <catch2/catch.hpp>

using terrace::compression::Codec;
using terrace::liballoc::offload::CodecChoice;

namespace {

using terrace::tests::mib;
constexpr std::uint64_t site = 7;

// Both codecs tried on a link of 1 ns a byte; frames and times by content, in hundredths.
struct Tried {
  CodecChoice choice;
  Tried(std::uint64_t zvc, std::uint64_t zvc_exp, std::uint64_t codec_ns,
        CodecChoice::Runs codec = CodecChoice::Runs::beside_the_job)
      : choice(codec) {
    choice.crossed_link(100 * mib, 100 * mib);
    choice.choose(site, false);
    choice.compressed(site, Codec::zvc, 100 * mib, zvc * mib, codec_ns * mib);
    choice.choose(site, false);
    choice.compressed(site, Codec::zvc_exp, 100 * mib, zvc_exp * mib, codec_ns * mib);
  }
};

}  // namespace

TEST_CASE("FirstEveryCandidateIsTried") {
  CodecChoice choice;
  CHECK(choice.choose(site, false) == Codec::zvc);
  CHECK(choice.choose(site, false) == Codec::zvc);  // until its result is there
  choice.compressed(site, Codec::zvc, mib, mib / 2, 1000);
  CHECK(choice.choose(site, false) == Codec::zvc_exp);
  CHECK(choice.choose(site + 1, false) == Codec::zvc);  // another class
}

TEST_CASE("TheSmallerFrameWins") {
  CHECK(Tried(60, 40, 1).choice.choose(site, false) == Codec::zvc_exp);
  CHECK(Tried(40, 60, 1).choice.choose(site, false) == Codec::zvc);
}

TEST_CASE("WhatDoesNotShrinkGoesAsItIs") {
  CHECK(Tried(100, 97, 1).choice.choose(site, false) == Codec::raw);
}

TEST_CASE("ACodecSlowerThanTheLinkIsNotUsed") {
  CHECK(Tried(50, 60, 90).choice.choose(site, false) == Codec::zvc);
  CHECK(Tried(50, 60, 300).choice.choose(site, false) == Codec::raw);
}

TEST_CASE("ACodecThatTakesTheJobsProcessorsHasToWinItsTimeBack") {
  CHECK(Tried(50, 60, 90).choice.choose(site, false) == Codec::zvc);
  CHECK(Tried(50, 60, 90, CodecChoice::Runs::in_its_place).choice.choose(site, false) == Codec::zvc);
  Tried tried(50, 60, 90, CodecChoice::Runs::in_its_place);
  tried.choice.decompressed(site, Codec::zvc, 100 * mib, 20 * mib);
  tried.choice.decompressed(site, Codec::zvc_exp, 100 * mib, 20 * mib);
  CHECK(tried.choice.choose(site, false) == Codec::raw);  // 0.9 + 0.2 + 2 x 0.5 of 2
  tried.choice.crossed_drive(mib, 10 * mib);
  CHECK(tried.choice.choose(site, true) == Codec::zvc);
}

TEST_CASE("ASlowDriveMakesASlowCodecPay") {
  Tried tried(50, 60, 300);
  tried.choice.crossed_drive(mib, 10 * mib);
  CHECK(tried.choice.choose(site, false) == Codec::raw);
  CHECK(tried.choice.choose(site, true) == Codec::zvc);
}

TEST_CASE("ASlowWayBackCounts") {
  Tried tried(50, 90, 1);
  tried.choice.decompressed(site, Codec::zvc, 100 * mib, 500 * mib);
  CHECK(tried.choice.choose(site, false) == Codec::zvc_exp);
}

TEST_CASE("EveryCandidateIsTriedAgainAsContentsDrift") {
  Tried tried(100, 100, 1);
  for (std::uint32_t i = 2; i < CodecChoice::tried_again_after; ++i)
    CHECK(tried.choice.choose(site, false) == Codec::raw);
  CHECK(tried.choice.choose(site, false) == Codec::zvc);
  tried.choice.compressed(site, Codec::zvc, 100 * mib, 20 * mib, mib);
  CHECK(tried.choice.choose(site, false) == Codec::zvc_exp);
  tried.choice.compressed(site, Codec::zvc_exp, 100 * mib, 30 * mib, mib);
  CHECK(tried.choice.choose(site, false) == Codec::zvc);
}
