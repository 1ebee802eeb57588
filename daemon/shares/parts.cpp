// See parts.h.
#include "daemon/shares/parts.h"

#include <algorithm>

#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

std::uint64_t capped_sum(std::uint64_t a, std::uint64_t b) {
  return a > ~std::uint64_t{0} - b ? ~std::uint64_t{0} : a + b;
}

// What its parts hold, and what of a loan they could be given and may expect.
void sum_up(Part* part) {
  if (part->parts.empty()) return;
  Holding& whole = part->holding;
  std::uint64_t least = 0, most = 0;
  whole.bytes = 0;
  whole.borrows = false;
  for (Part& below : part->parts) {
    sum_up(&below);
    const Holding& its = below.holding;
    whole.bytes += its.bytes;
    whole.borrows = whole.borrows || its.borrows;
    least += its.borrows ? std::max(its.bytes, std::min(its.least, its.most)) : its.bytes;
    most = capped_sum(most, its.borrows ? std::max(its.bytes, its.most) : its.bytes);
  }
  whole.least = std::max(whole.least, least);
  whole.most = std::min(whole.most, most);
}

void lend_below(std::uint64_t whole, std::vector<Part>* parts) {
  std::vector<Holding> holders;
  holders.reserve(parts->size());
  for (const Part& part : *parts) holders.push_back(part.holding);
  const std::vector<std::uint64_t> lent = loans(whole, holders);
  for (std::size_t i = 0; i < parts->size(); ++i) {
    Part& part = (*parts)[i];
    part.lent_bytes = lent[i];
    if (!part.parts.empty()) lend_below(part.holding.bytes + lent[i], &part.parts);
  }
}

}  // namespace

void lend(std::uint64_t whole, std::vector<Part>* parts) {
  for (Part& part : *parts) sum_up(&part);
  lend_below(whole, parts);
}

}  // namespace terrace::daemon
