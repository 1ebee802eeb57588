// One amount divided level by level: what a part is lent is divided among its own parts. Pure arithmetic; the
// arbiter says who the parts are (groups, users, jobs). The rule of each level is loans() of shares.h.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/shares/shares.h"

namespace terrace::daemon {

struct Part {
  // Without parts of its own: all of it. With some, `weight`, `least` and `most` are what is said of them
  // together; the rest is theirs, and what they are guaranteed and limited to counts as well.
  Holding holding;
  std::vector<Part> parts;
  std::uint64_t lent_bytes = 0;  // the result
};

// Lends each of `parts`, and each part below, what nobody holds of `whole` bytes.
void lend(std::uint64_t whole, std::vector<Part>* parts);

}  // namespace terrace::daemon
