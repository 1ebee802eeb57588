#include "daemon/planner/recompute/dtr/heuristic.h"

#include <limits>
#include <random>

#include "daemon/planner/recompute/dtr/evicted_classes.h"
#include "daemon/planner/recompute/dtr/evicted_reach.h"

namespace terrace::planner::recompute {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double ratio(double cost, double by) { return by > 0 ? cost / by : infinite; }

double bytes_of(const Residency& r, std::uint32_t s) { return static_cast<double>(r.step.storages[s].bytes); }

double staleness_of(const Residency& r, std::uint32_t s) {
  return static_cast<double>(r.clock_ns - r.last_used_ns[s]);
}

double stale_bytes_of(const Residency& r, std::uint32_t s) { return bytes_of(r, s) * staleness_of(r, s); }

class Full : public Heuristic {
 public:
  explicit Full(const Residency& r) : r_(r), above_(r, Towards::parents), below_(r, Towards::children) {}
  double value(std::uint32_t s) override {
    return ratio(static_cast<double>(r_.cost_ns(s) + above_.cost_ns(s) + below_.cost_ns(s)),
                 stale_bytes_of(r_, s));
  }
  void evicted(std::uint32_t s) override { changed(s); }
  void came_back(std::uint32_t s) override { changed(s); }

 private:
  void changed(std::uint32_t s) {
    above_.changed(s);
    below_.changed(s);
  }
  const Residency& r_;
  EvictedReach above_, below_;
};

class Classes : public Heuristic {
 public:
  using Divisor = double (*)(const Residency&, std::uint32_t);
  Classes(const Residency& r, Divisor divisor) : r_(r), classes_(r), divisor_(divisor) {}
  double value(std::uint32_t s) override {
    return ratio(static_cast<double>(r_.cost_ns(s) + classes_.cost_around_ns(s)), divisor_(r_, s));
  }
  void evicted(std::uint32_t s) override { classes_.evicted(s); }
  void came_back(std::uint32_t s) override { classes_.came_back(s); }

 private:
  const Residency& r_;
  EvictedClasses classes_;
  Divisor divisor_;
};

// Of the storage alone, whatever was evicted around it.
class Alone : public Heuristic {
 public:
  using Formula = double (*)(const Residency&, std::uint32_t);
  Alone(const Residency& r, Formula formula) : r_(r), formula_(formula) {}
  double value(std::uint32_t s) override { return formula_(r_, s); }

 private:
  const Residency& r_;
  Formula formula_;
};

double local_value(const Residency& r, std::uint32_t s) {
  return ratio(static_cast<double>(r.cost_ns(s)), stale_bytes_of(r, s));
}

// The order of 1 / a is that of the time of the last use.
double age_value(const Residency& r, std::uint32_t s) { return static_cast<double>(r.last_used_ns[s]); }

double size_value(const Residency& r, std::uint32_t s) { return ratio(1, bytes_of(r, s)); }

class MemoryPerSecond : public Heuristic {
 public:
  explicit MemoryPerSecond(const Residency& r) : r_(r), above_(r, Towards::parents) {}
  double value(std::uint32_t s) override {
    return ratio(static_cast<double>(r_.cost_ns(s) + above_.cost_ns(s)), bytes_of(r_, s));
  }
  void evicted(std::uint32_t s) override { above_.changed(s); }
  void came_back(std::uint32_t s) override { above_.changed(s); }

 private:
  const Residency& r_;
  EvictedReach above_;
};

// The least of as many draws as there are candidates is each of them with the same chance.
class Random : public Heuristic {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  double value(std::uint32_t) override { return static_cast<double>((random_() >> 11) + 1); }

 private:
  std::mt19937_64 random_;
};

}  // namespace

const std::vector<NamedHeuristic>& dtr_heuristics() {
  static const std::vector<NamedHeuristic> all = {
      {"h_DTR", HeuristicKind::dtr},      {"h_DTR-eq", HeuristicKind::dtr_eq},
      {"h_MSPS", HeuristicKind::msps},    {"h_DTR-local", HeuristicKind::dtr_local},
      {"h_LRU", HeuristicKind::lru},      {"h_size", HeuristicKind::size},
      {"h_random", HeuristicKind::random}};
  return all;
}

std::unique_ptr<Heuristic> make_heuristic(HeuristicKind kind, std::uint64_t seed, const Residency& r) {
  switch (kind) {
    case HeuristicKind::dtr:
      return std::make_unique<Full>(r);
    case HeuristicKind::dtr_eq:
      return std::make_unique<Classes>(r, stale_bytes_of);
    case HeuristicKind::coop:
      return std::make_unique<Classes>(r, staleness_of);
    case HeuristicKind::dtr_local:
      return std::make_unique<Alone>(r, local_value);
    case HeuristicKind::lru:
      return std::make_unique<Alone>(r, age_value);
    case HeuristicKind::size:
      return std::make_unique<Alone>(r, size_value);
    case HeuristicKind::msps:
      return std::make_unique<MemoryPerSecond>(r);
    case HeuristicKind::random:
      break;
  }
  return std::make_unique<Random>(seed);
}

}  // namespace terrace::planner::recompute
