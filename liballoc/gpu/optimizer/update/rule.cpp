#include "liballoc/gpu/optimizer/update/rule.h"

#include <cerrno>
#include <cmath>

namespace terrace::liballoc::optimizer {
namespace {

bool has(const terrace_optimizer_rule& rule, unsigned flag) { return (rule.flags & flag) != 0; }

int refuse(const char* name, double value, const char* accepted, std::string* reason) {
  *reason = std::string(name) + " is " + std::to_string(value) + ": it must be " + accepted;
  return EINVAL;
}

int check_shared(const terrace_optimizer_rule& rule, std::string* reason) {
  if (!std::isfinite(rule.lr)) return refuse("lr", rule.lr, "a finite number", reason);
  if (!(rule.weight_decay >= 0) || !std::isfinite(rule.weight_decay))
    return refuse("weight_decay", rule.weight_decay, "0 or more", reason);
  return 0;
}

int check_adam(const terrace_optimizer_rule& rule, std::string* reason) {
  if (!(rule.beta1 >= 0 && rule.beta1 < 1)) return refuse("beta1", rule.beta1, "from 0 to below 1", reason);
  if (!(rule.beta2 >= 0 && rule.beta2 < 1)) return refuse("beta2", rule.beta2, "from 0 to below 1", reason);
  if (!(rule.eps >= 0)) return refuse("eps", rule.eps, "0 or more", reason);
  return 0;
}

void fill_adam(const terrace_optimizer_rule& from, std::uint64_t step, Rule* out) {
  const auto steps = static_cast<double>(step);
  const double weight = 1 - from.beta1;
  out->amsgrad = has(from, TERRACE_OPTIMIZER_AMSGRAD);
  out->by_lerp = has(from, TERRACE_OPTIMIZER_LERP);
  out->fused_square = has(from, TERRACE_OPTIMIZER_FUSED_SQUARE);
  out->complement = std::fabs(static_cast<float>(weight)) >= 0.5F;
  out->average_old = static_cast<float>(from.beta1);
  out->average_new = static_cast<float>(weight);
  if (out->by_lerp && out->complement) out->average_new -= 1.0F;
  out->square_old = static_cast<float>(from.beta2);
  out->square_new = static_cast<float>(1 - from.beta2);
  out->root_correction = static_cast<float>(std::sqrt(1 - std::pow(from.beta2, steps)));
  out->eps = static_cast<float>(from.eps);
  out->step_size = static_cast<float>(-(from.lr / (1 - std::pow(from.beta1, steps))));
}

void fill_sgd(const terrace_optimizer_rule& from, std::uint64_t step, Rule* out) {
  out->is_sgd = true;
  out->nesterov = has(from, TERRACE_OPTIMIZER_NESTEROV);
  out->first = step == 1;
  out->average_old = out->momentum = static_cast<float>(from.momentum);
  out->average_new = static_cast<float>(1 - from.dampening);
  out->step_size = static_cast<float>(-from.lr);
}

}  // namespace

unsigned states_of(const terrace_optimizer_rule& rule) {
  if (rule.kind == TERRACE_OPTIMIZER_SGD) return 1;
  return has(rule, TERRACE_OPTIMIZER_AMSGRAD) ? 3 : 2;
}

int make_rule(const terrace_optimizer_rule& from, std::uint64_t step, Rule* out, std::string* reason) {
  if (from.kind != TERRACE_OPTIMIZER_ADAM && from.kind != TERRACE_OPTIMIZER_SGD) {
    *reason = "the rule's kind is " + std::to_string(from.kind) + ": it must be ADAM or SGD";
    return EINVAL;
  }
  if (step == 0) {
    *reason = "step is 0: the first update is number 1";
    return EINVAL;
  }
  if (const int error = check_shared(from, reason); error != 0) return error;
  const bool is_sgd = from.kind == TERRACE_OPTIMIZER_SGD;
  if (const int error = is_sgd ? 0 : check_adam(from, reason); error != 0) return error;
  Rule rule;
  rule.maximize = has(from, TERRACE_OPTIMIZER_MAXIMIZE);
  const bool decoupled = has(from, TERRACE_OPTIMIZER_DECOUPLED);
  rule.has_l2 = !decoupled && from.weight_decay != 0;
  rule.l2 = static_cast<float>(from.weight_decay);
  if (decoupled) rule.keep = static_cast<float>(1 - from.lr * from.weight_decay);
  is_sgd ? fill_sgd(from, step, &rule) : fill_adam(from, step, &rule);
  *out = rule;
  return 0;
}

}  // namespace terrace::liballoc::optimizer
