// What an update computes from a parameter, its gradient and its states: the rule and its numbers, once per
// step and parameter, as the kernels take them.
//
//   Adam (Kingma, Ba: ICLR 2015, algorithm 1), AdamW (Loshchilov, Hutter: ICLR 2019, algorithm 2), AMSGrad
//   (Reddi, Kale, Kumar: ICLR 2018, algorithm 2), SGD with momentum as PyTorch defines it: the buffer begins
//   with the first gradient, and the learning rate is outside of it.
//
// The order of operations is that of PyTorch's for-loop ("single-tensor") implementations, one rounding to
// float for each of its operations, so that results are the same to the last bit (body.h has the
// formulas). Coefficients are computed in double and rounded once, as PyTorch does with Python's numbers.
#pragma once

#include <cstdint>
#include <string>

#include "liballoc/gpu/terrace_optimizer.h"

namespace terrace::liballoc::optimizer {

struct Rule {
  bool is_sgd = false;
  bool maximize = false;
  bool amsgrad = false;
  bool nesterov = false;
  bool first = false;         // SGD: there is no buffer yet
  bool by_lerp = false;       // the first moment moves towards the gradient (lerp), else decays and adds
  bool complement = false;    // with by_lerp: from the gradient's end, as lerp does from a weight of 0.5 on
  bool fused_square = false;  // the second moment's sum is fused with its product
  bool has_l2 = false;        // weight decay is a part of the gradient
  float l2 = 0;               // that weight decay
  float keep = 1;             // of the parameter: 1 - lr * weight decay, decoupled
  float average_old = 0;      // beta1 or momentum
  float average_new = 0;      // 1 - beta1 (by_lerp: lerp's coefficient) or 1 - dampening
  float square_old = 0;       // beta2
  float square_new = 0;       // 1 - beta2
  float root_correction = 1;  // the root of 1 - beta2^step
  float eps = 0;
  float momentum = 0;   // Nesterov's
  float step_size = 0;  // minus lr, for Adam by 1 - beta1^step
};

// The states of a rule, in the order in which the C API numbers them; master weights come after them.
unsigned states_of(const terrace_optimizer_rule& rule);

// 0, or EINVAL with *reason naming the number, its value and what is accepted. `step` counts this update,
// from 1.
int make_rule(const terrace_optimizer_rule& from, std::uint64_t step, Rule* out, std::string* reason);

}  // namespace terrace::liballoc::optimizer
