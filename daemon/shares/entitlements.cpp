// See entitlements.h.
#include "daemon/shares/entitlements.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "daemon/base/size.h"
#include "daemon/shares/parts.h"

namespace terrace::daemon {
namespace {

__extension__ using Wide = unsigned __int128;

// Groups, users and jobs as parts of the machine, and where each job is among them.
class Tree {
 public:
  explicit Tree(const UserShares& users) : users_(users) {}

  void add(std::uint32_t uid, const Holding& job) {
    const auto [at, is_new] = user_at_.try_emplace(uid);
    if (is_new) at->second = add_user(uid);
    const Place user = at->second;
    std::vector<Part>& jobs = tops_[user.top].parts[user.user].parts;
    places_.push_back({user.top, user.user, jobs.size()});
    jobs.push_back({job, {}, 0});
  }
  // What each is lent, in the order in which they were added.
  std::vector<std::uint64_t> lend(std::uint64_t whole) {
    daemon::lend(whole, &tops_);
    std::vector<std::uint64_t> lent;
    lent.reserve(places_.size());
    for (const Place& at : places_) lent.push_back(tops_[at.top].parts[at.user].parts[at.job].lent_bytes);
    return lent;
  }

 private:
  struct Place {
    std::size_t top = 0, user = 0, job = 0;
  };

  Place add_user(std::uint32_t uid) {
    const UserShare share = users_.of(uid);
    const auto group = users_.group_of(uid);
    const std::size_t top = group ? top_of(*group) : add_top({});
    Part& above = tops_[top];
    if (!group || !users_.groups()[*group].weight)
      above.holding.weight = (above.parts.empty() ? 0 : above.holding.weight) + share.weight;
    above.parts.push_back(
        {{.weight = share.weight, .least = share.guarantee_bytes, .most = share.limit_bytes}, {}, 0});
    return {top, above.parts.size() - 1, 0};
  }
  std::size_t add_top(const Holding& holding) {
    tops_.push_back({holding, {}, 0});
    return tops_.size() - 1;
  }
  std::size_t top_of(std::size_t group) {
    const auto [at, is_new] = group_at_.try_emplace(group);
    const GroupShare& share = users_.groups()[group];
    if (is_new)
      at->second = add_top(
          {.weight = share.weight.value_or(1), .least = share.guarantee_bytes, .most = share.limit_bytes});
    return at->second;
  }

  const UserShares& users_;
  std::vector<Part> tops_;
  std::map<std::size_t, std::size_t> group_at_;
  std::map<std::uint32_t, Place> user_at_;
  std::vector<Place> places_;
};

// Of `bytes` the part that `of_it` is of `whole`.
std::uint64_t part_of(std::uint64_t bytes, std::uint64_t of_it, std::uint64_t whole, bool rounds_up) {
  const auto product = static_cast<Wide>(bytes) * of_it;
  return static_cast<std::uint64_t>((product + (rounds_up ? whole - 1 : 0)) / whole);
}

bool borrows(const JobPart& job, const JobUse& use) {
  return job.promised_bytes == 0 && use.wanted_bytes > use.due_bytes;
}

// What is borrowed is taken from those who lend, from each in proportion to what it does not use: from jobs
// of the same user first, then of the same group, then of all. So what a user or a group lends while it
// borrows does not take it past its limit.
class Settlement {
 public:
  Settlement(std::vector<std::uint64_t> borrowed, std::vector<std::uint64_t> idle,
             std::vector<std::uint64_t>* has)
      : borrowed_(std::move(borrowed)), idle_(std::move(idle)), has_(*has) {}

  // Within each circle, which are numbered in the order of the jobs.
  void settle(const std::vector<std::uint64_t>& circle_of) {
    struct Circle {
      std::uint64_t borrowed = 0, idle = 0;
    };
    std::map<std::uint64_t, Circle> circles;
    for (std::size_t i = 0; i < has_.size(); ++i) {
      Circle& circle = circles[circle_of[i]];
      circle.borrowed += borrowed_[i];
      circle.idle += idle_[i];
    }
    for (std::size_t i = 0; i < has_.size(); ++i) {
      const Circle& circle = circles[circle_of[i]];
      const std::uint64_t moves = std::min(circle.borrowed, circle.idle);
      if (moves != 0) take(i, moves, circle.borrowed, circle.idle);
    }
  }

 private:
  void take(std::size_t i, std::uint64_t moves, std::uint64_t all_borrowed, std::uint64_t all_idle) {
    const std::uint64_t taken = std::min(idle_[i], part_of(idle_[i], moves, all_idle, true));
    has_[i] -= taken;
    idle_[i] -= taken;
    borrowed_[i] -= part_of(borrowed_[i], moves, all_borrowed, false);
  }

  std::vector<std::uint64_t> borrowed_, idle_;
  std::vector<std::uint64_t>& has_;
};

void take_from_lenders(const std::vector<std::uint64_t>& borrowed, const UserShares& users,
                       const std::vector<JobPart>& jobs, const std::vector<JobUse>& uses,
                       std::vector<std::uint64_t>* has) {
  std::vector<std::uint64_t> idle, user, group;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto of = users.group_of(jobs[i].uid);
    idle.push_back(uses[i].idle_bytes);
    user.push_back(jobs[i].uid);
    group.push_back(of ? (std::uint64_t{1} << 32) + *of : jobs[i].uid);
  }
  Settlement settlement(borrowed, std::move(idle), has);
  settlement.settle(user);
  settlement.settle(group);
  settlement.settle(std::vector<std::uint64_t>(jobs.size()));
}

}  // namespace

std::vector<std::uint64_t> dues(std::uint64_t machine_bytes, std::uint64_t start_bytes,
                                const UserShares& users, const std::vector<JobPart>& jobs) {
  Tree tree(users);
  for (const JobPart& job : jobs)
    tree.add(job.uid, {.bytes = std::max(job.promised_bytes, start_bytes),
                       .borrows = job.promised_bytes == 0,
                       .weight = job.weight,
                       .least = job.guarantee_bytes,
                       .most = job.limit_bytes});
  std::vector<std::uint64_t> due = tree.lend(machine_bytes);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    due[i] = jobs[i].promised_bytes != 0 ? jobs[i].promised_bytes : start_bytes + due[i];
  return due;
}

std::vector<std::uint64_t> with_loans(std::uint64_t machine_bytes, const UserShares& users,
                                      const std::vector<JobPart>& jobs, const std::vector<JobUse>& uses) {
  std::vector<std::uint64_t> has;
  has.reserve(uses.size());
  bool is_wanted = false, is_idle = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    has.push_back(uses[i].due_bytes);
    is_wanted = is_wanted || borrows(jobs[i], uses[i]);
    is_idle = is_idle || uses[i].idle_bytes != 0;
  }
  if (!is_wanted || !is_idle) return has;
  Tree tree(users);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    tree.add(jobs[i].uid, {.bytes = minus(has[i], uses[i].idle_bytes),
                           .borrows = borrows(jobs[i], uses[i]),
                           .weight = jobs[i].weight,
                           .most = std::min(jobs[i].limit_bytes, uses[i].wanted_bytes)});
  const std::uint64_t due = std::accumulate(has.begin(), has.end(), std::uint64_t{0});
  const std::vector<std::uint64_t> lent = tree.lend(std::min(machine_bytes, due));
  take_from_lenders(lent, users, jobs, uses, &has);
  for (std::size_t i = 0; i < jobs.size(); ++i) has[i] += lent[i];
  return has;
}

}  // namespace terrace::daemon
