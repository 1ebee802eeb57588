// See share_tree.h.
#include "daemon/shares/share_tree.h"

#include <algorithm>

#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

std::uint64_t sum_within_range(std::uint64_t a, std::uint64_t b) {
  return a > ~std::uint64_t{0} - b ? ~std::uint64_t{0} : a + b;
}

// What a part and those below it could have in all.
std::uint64_t most_of(const Part& part) {
  const Holding& own = part.holding;
  if (part.parts.empty()) return own.borrows ? std::max(own.bytes, own.most) : own.bytes;
  std::uint64_t below = 0;
  for (const Part& one : part.parts) below = sum_within_range(below, most_of(one));
  return std::min(own.most, below);
}

// A part of nobody's that is lent `bytes`, no more and no less.
Part kept(std::uint64_t bytes) { return {{.borrows = true, .least = bytes, .most = bytes}, {}, 0}; }

// Of what is guaranteed to a part, what those below could not have.
void keep_rest(std::uint64_t guarantee, Part* part) {
  std::uint64_t below = 0;
  for (const Part& one : part->parts) below = sum_within_range(below, most_of(one));
  if (below < guarantee) part->parts.push_back(kept(guarantee - below));
}

}  // namespace

std::size_t ShareTree::add_top(const Holding& holding) {
  tops_.push_back({holding, {}, 0});
  return tops_.size() - 1;
}

std::size_t ShareTree::top_of(std::size_t group) {
  const auto [at, is_new] = group_at_.try_emplace(group);
  const GroupShare& share = users_.groups()[group];
  if (is_new)
    at->second = add_top(
        {.weight = share.weight.value_or(1), .least = share.guarantee_bytes, .most = share.limit_bytes});
  return at->second;
}

ShareTree::Place ShareTree::add_user(std::uint32_t uid) {
  const UserShare share = users_.of(uid);
  const auto group = users_.group_of(uid);
  const std::size_t top = group ? top_of(*group) : add_top({.weight = share.weight});
  std::vector<Part>& users = tops_[top].parts;
  users.push_back(
      {{.weight = share.weight, .least = share.guarantee_bytes, .most = share.limit_bytes}, {}, 0});
  return {top, users.size() - 1, 0};
}

// A group that says no weight weighs as much as those of its members who have jobs.
Part& ShareTree::user_part(std::uint32_t uid, bool has_jobs) {
  const auto [at, is_new] = user_at_.try_emplace(uid);
  if (is_new) at->second = add_user(uid);
  const Place user = at->second;
  Part& top = tops_[user.top];
  const auto group = users_.group_of(uid);
  if (has_jobs && group && !users_.groups()[*group].weight && have_jobs_.insert(uid).second)
    top.holding.weight = weights_[*group] += users_.of(uid).weight;
  return top.parts[user.user];
}

void ShareTree::add(std::uint32_t uid, const Holding& holding) {
  std::vector<Part>& jobs = user_part(uid, true).parts;
  Place place = user_at_.at(uid);
  place.job = jobs.size();
  places_.push_back(place);
  jobs.push_back({holding, {}, 0});
  named_[uid] += holding.least;
}

void ShareTree::add_rest(std::uint32_t uid, std::uint64_t bytes) {
  if (bytes != 0) user_part(uid, false).parts.push_back({{.bytes = bytes}, {}, 0});
}

// From below: what is kept for a job is a part of what its user could have.
void ShareTree::keep_guarantees() {
  for (const std::uint32_t uid : users_.guaranteed_users()) {
    Part& user = user_part(uid, false);
    const std::uint64_t absent = minus(users_.jobs().guaranteed_bytes(uid), named_[uid]);
    if (absent != 0) user.parts.push_back(kept(absent));
    keep_rest(users_.of(uid).guarantee_bytes, &user);
  }
  for (std::size_t i = 0; i < users_.groups().size(); ++i) {
    const std::uint64_t guarantee = users_.groups()[i].guarantee_bytes;
    if (guarantee != 0) keep_rest(guarantee, &tops_[top_of(i)]);
  }
}

std::vector<std::uint64_t> ShareTree::lend(std::uint64_t whole) {
  daemon::lend(whole, &tops_);
  std::vector<std::uint64_t> lent;
  lent.reserve(places_.size());
  for (const Place& at : places_) lent.push_back(tops_[at.top].parts[at.user].parts[at.job].lent_bytes);
  return lent;
}

}  // namespace terrace::daemon
