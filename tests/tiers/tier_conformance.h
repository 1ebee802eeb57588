// One suite for every tier that stores bytes: what tier.h promises, asked of whatever the caller makes.
//
// A tier's own test calls check_conformance() inside a TEST_CASE with a function that makes a fresh, open
// tier of about the given capacity. Each promise is a SECTION, so each gets a tier of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tiers/tier.h"

namespace terrace::tiers::test {

// Keeps a tier and all that it stands on alive.
struct Subject {
  virtual ~Subject() = default;
  virtual Tier& tier() = 0;
};

using MakeSubject = std::function<std::unique_ptr<Subject>(std::uint64_t capacity_bytes)>;

void check_conformance(const MakeSubject& make);

}  // namespace terrace::tiers::test
