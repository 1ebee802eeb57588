// See entitlements.h.
#include "daemon/shares/entitlements.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "daemon/base/size.h"
#include "daemon/shares/share_tree.h"

namespace terrace::daemon {
namespace {

__extension__ using Wide = unsigned __int128;

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
  ShareTree tree(users);
  for (const JobPart& job : jobs)
    tree.add(job.uid, {.bytes = std::max(job.promised_bytes, start_bytes),
                       .borrows = job.promised_bytes == 0,
                       .weight = job.weight,
                       .least = job.guarantee_bytes,
                       .most = job.limit_bytes});
  if (users.keeps_guarantees()) tree.keep_guarantees();
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
  ShareTree tree(users);
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
