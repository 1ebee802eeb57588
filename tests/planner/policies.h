// A policy by its name, for the tests of the families.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::test {

// Fails the test if there is none of that name.
inline ReusePolicy policy(const std::string& name) {
  for (const ReusePolicy& p : reuse_policies())
    if (p.name == name) return p;
  FAIL("no policy is named " << name);
  return {};
}

}  // namespace terrace::planner::test
