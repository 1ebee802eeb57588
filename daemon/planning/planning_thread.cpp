#include "daemon/planning/planning_thread.h"

#include <malloc.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <system_error>

namespace terrace::daemon {
namespace {

constexpr const char* too_many = "too many periods wait to be planned; send it again later";

// Memory of a plan's size goes back to the machine where the plan's was large.
constexpr std::uint64_t much_bytes = std::uint64_t{1} << 20;

}  // namespace

PlanningThread::PlanningThread() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PlanningThread::~PlanningThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    give_up_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::size_t PlanningThread::waiting() const {
  std::size_t count = 0;
  for (const auto& [uid, requests] : waiting_) count += requests.size();
  return count;
}

std::string PlanningThread::ask(PlanRequest request) try {
  {
    const std::lock_guard lock(mutex_);
    take_out(request.session);
    const auto mine = waiting_.find(request.uid);
    const bool is_full =
        waiting() >= most_waiting || (mine != waiting_.end() && mine->second.size() >= most_waiting_of_user);
    if (is_full) {
      given_up_.push_back(std::move(request));
      return too_many;
    }
    if (planned_ == request.session) give_up_ = true;
    waiting_[request.uid].push_back(std::move(request));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
  return {};
} catch (const std::system_error& error) {  // no thread: what waits is planned once there is one
  return std::string("the daemon has no thread to plan with: ") + error.what();
}

void PlanningThread::forget(SessionId session) {
  const std::lock_guard lock(mutex_);
  take_out(session);
  if (planned_ == session) give_up_ = true;
  changed_.notify_all();
}

void PlanningThread::take_out(SessionId session) {
  for (auto& [uid, requests] : waiting_) {
    const auto found = std::find_if(requests.begin(), requests.end(),
                                    [session](const PlanRequest& r) { return r.session == session; });
    if (found == requests.end()) continue;
    given_up_.push_back(std::move(*found));
    requests.erase(found);
    if (requests.empty()) waiting_.erase(uid);
    return;
  }
}

void PlanningThread::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);
  std::unique_lock lock(mutex_);
  while (const std::optional<PlanRequest> request = next(lock)) {
    lock.unlock();
    plan(*request);
    lock.lock();
    planned_ = 0;
  }
}

// Waits for one; nothing at the end.
std::optional<PlanRequest> PlanningThread::next(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (!given_up_.empty()) {
      std::vector<PlanRequest> closed = std::exchange(given_up_, {});
      lock.unlock();
      closed.clear();
      lock.lock();
      continue;
    }
    if (stopping_) return std::nullopt;
    if (!waiting_.empty()) break;
    changed_.wait(lock);
  }
  auto turn = waiting_.upper_bound(last_user_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_user_ = turn->first;
  PlanRequest request = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) waiting_.erase(turn);
  planned_ = request.session;
  give_up_ = false;
  return request;
}

void PlanningThread::plan(const PlanRequest& request) try {
  const std::vector<std::byte> bytes = read_file(request.file);
  const wire::OpenedPeriod opened = wire::open_period(bytes);
  PlanResult result;
  if (!opened) {
    result.refusal = describe_fault(opened);
  } else if (opened.view.header->period_hash != request.period_hash ||
             opened.view.header->phase != request.phase) {
    result.refusal = "the period's image is of another phase or hash than its message";
  } else {
    plan_opened(request, opened.view);
  }
  if (!result.refusal.empty()) report(request, std::move(result));
  if (bytes.size() > much_bytes) ::malloc_trim(0);
} catch (const std::exception& error) {  // no memory; whatever else must not end the daemon
  PlanResult result;
  result.refusal = std::string("the daemon could not plan it: ") + error.what();
  report(request, std::move(result));
}

void PlanningThread::plan_opened(const PlanRequest& request, const wire::PeriodView& period) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(planning_ns);
  PeriodPlanner planner(period, request.settings);
  const auto answer = [&](Result<PeriodPlan> plan) {
    PlanResult result;
    result.budget_bytes = period.header->budget_bytes;
    result.policy = planner.policy();
    Result<UniqueFd> file = plan ? make_sealed_file(plan->image) : refused<UniqueFd>(std::move(plan.error));
    result.refusal = std::move(file.error);
    if (file) {
      result.image_bytes = plan->image.size();
      result.file = std::move(*file);
      plan->image = {};
      result.plan = std::move(*plan);
    }
    report(request, std::move(result));
  };
  Result<PeriodPlan> quick = planner.quick();
  if (!planner.searches()) return answer(std::move(quick));
  // A search says why there is none only when it found none, too.
  const bool found = bool(quick);
  const std::string why_none = quick.error;
  if (found) answer(std::move(quick));
  planner::SwapControl control;
  control.stop = [&] { return give_up_ || Clock::now() >= end; };
  std::optional<PeriodPlan> better = give_up_ ? std::nullopt : planner.better(control);
  if (better) return answer(ok(std::move(*better)));
  if (!found) answer(refused<PeriodPlan>(why_none));
}

void PlanningThread::report(const PlanRequest& request, PlanResult result) {
  result.session = request.session;
  result.phase = request.phase;
  result.period_hash = request.period_hash;
  const std::lock_guard lock(mutex_);
  if (give_up_) return;  // nobody waits for it
  results_.push_back(std::move(result));
  const std::uint64_t one = 1;
  if (::write(event_.get(), &one, sizeof one) < 0) {
    // Full: it is readable already.
  }
}

std::vector<PlanResult> PlanningThread::results() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  if (::read(event_.get(), &count, sizeof count) < 0) {
    // Nothing was reported since.
  }
  return std::exchange(results_, {});
}

}  // namespace terrace::daemon
