// How long a codec or a link takes for a tensor, learned from what it took before.
//
// In a range of sizes, time is linear in the bytes and, piece by piece, in what is left of them (which says
// how many values there are and, for rle, how they lie):
//
//   ns = t0 a + bytes b (t1 h(c, 0) + t2 h(c, 1/3) + t3 h(c, 2/3) + t4 h(c, 1)),    c = bytes of the frame by
//   bytes of content
//
// where h(c, x) is the hat that is 1 at x and falls to 0 at the next of the four. The coefficients are then
// what a byte takes at four fractions: positive, and alike, so that what is learned at one is a first guess
// for the others.
//
// CSWAP fits such a line once per codec (size and sparsity, CLUSTER 2021); two things are added. The caches
// bend the line over size, so each range of sizes, a factor of four wide, has coefficients of its own and
// takes its neighbour's before its first observation. And a machine changes (clocks, neighbours), so the fit
// follows: recursive least squares in which the coefficients are taken to drift at random (a Kalman filter),
// which forgets like an exponential window but whose covariance stays bounded when all observations look
// alike, as those of a pager do (2 MiB, always).
//
// Errors are relative: each row is divided by the predicted time, so that 64 KiB and 1 GiB count the same.
// One measurement far off (the thread was preempted) moves the fit as far as one at the edge of the usual
// spread; four in a row on the same side are believed.
//
// No clock: times are passed in. Not for several threads at once.
#pragma once

#include <cstdint>

namespace terrace::compression {

struct Work {
  std::uint64_t bytes = 0;
  double fraction = 1;  // that the frame takes of it; for a link always 1
};

// What to believe before anything was observed: a per call, b per byte, whatever the fraction.
struct TimePrior {
  double call_ns = 1000;
  double byte_ns = 1;
};

// The fit for one range of sizes.
class TimeFit {
 public:
  TimeFit();
  double predict_ns(const TimePrior& prior, Work work) const;
  void observe(const TimePrior& prior, Work work, double ns);
  // Starts from another range's coefficients, but certain of none.
  void take_over(const TimeFit& other);
  std::uint32_t observations() const { return observations_; }

 private:
  static constexpr int knots = 4;
  static constexpr int terms = 1 + knots;
  struct Row {
    double x[terms];
  };
  Row row(const TimePrior& prior, Work work) const;
  double value(const Row& row) const;
  double trust(double error);
  void rescale(double ratio);
  void correct(const Row& row, double error, double noise_variance);
  void drift();

  double scale_ = 1;  // of the prior; the coefficients are near 1
  double coefficient_[terms];
  double covariance_[terms][terms];
  double spread_;  // usual size of a relative error
  double last_error_ = 0;
  std::uint32_t observations_ = 0;
  std::int32_t far_off_ = 0;  // outliers in a row, negative for those that were too fast
};

// All sizes.
class TimeModel {
 public:
  TimeModel() = default;
  explicit TimeModel(TimePrior prior) : prior_(prior) {}
  // Positive and finite, whatever the work.
  double predict_ns(Work work) const;
  // Ignores what cannot be a time: nothing moved, not positive, not finite.
  void observe(Work work, double ns);
  // How often work of this range of sizes has been observed.
  std::uint32_t observations(std::uint64_t bytes) const;

 private:
  static constexpr int ranges = 8;  // up to 64 KiB, 256 KiB, … 256 MiB, more
  static int range_of(std::uint64_t bytes);
  int nearest_observed(int range) const;

  TimePrior prior_;
  TimeFit fits_[ranges];
};

}  // namespace terrace::compression
