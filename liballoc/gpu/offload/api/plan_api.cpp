// The planned step's part of the C API (terrace_gpu.h), over StepPlanner.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "liballoc/gpu/offload/api/engine_handle.h"
#include "liballoc/gpu/offload/engine/engine.h"
#include "liballoc/gpu/terrace_gpu.h"

using terrace::liballoc::offload::PlanRun;
using terrace::liballoc::offload::StepPlanner;

namespace {

int code_of(const StepPlanner::Answer& answer) {
  return (answer.follows ? TERRACE_PLAN_FOLLOWS : 0) | (answer.has_moves ? TERRACE_PLAN_MOVES : 0) |
         (answer.departed ? TERRACE_PLAN_DEPARTED : 0);
}

terrace_plan_move what_of(const PlanRun::Move& move) {
  if (move.what == PlanRun::Move::What::in) return TERRACE_MOVE_IN;
  if (move.what == PlanRun::Move::What::give_up) return TERRACE_MOVE_GIVE_UP;
  return move.tier == 1 ? TERRACE_MOVE_OUT : TERRACE_MOVE_DRIVE;
}

// 0 without a planner. Exceptions are those of a host without memory.
template <typename Function>
int planned(terrace_offload* engine, Function&& function) noexcept {
  if (engine == nullptr) return -EINVAL;
  StepPlanner* planner = engine->engine->planner();
  if (planner == nullptr) return 0;
  try {
    return function(*planner);
  } catch (...) {
    return -ENOMEM;
  }
}

}  // namespace

extern "C" {

int terrace_offload_plan_saved(terrace_offload* engine, uint64_t number, uint64_t bytes) {
  return planned(engine, [&](StepPlanner& planner) {
    return code_of(planner.saved(number, bytes, engine->engine->moment()));
  });
}

int terrace_offload_plan_wanted(terrace_offload* engine, uint64_t number, int stays) {
  return planned(engine, [&](StepPlanner& planner) {
    return code_of(planner.wanted(number, stays != 0, engine->engine->moment()));
  });
}

int terrace_offload_plan_gone(terrace_offload* engine, uint64_t number) {
  return planned(engine, [&](StepPlanner& planner) {
    planner.gone(number);
    return 0;
  });
}

int terrace_offload_plan_back(terrace_offload* engine, uint64_t number) {
  return planned(engine, [&](StepPlanner& planner) {
    planner.back(number);
    return 0;
  });
}

int terrace_offload_plan_used(terrace_offload* engine, uint64_t used, uint64_t limit) {
  return planned(engine, [&](StepPlanner& planner) {
    planner.used(used, limit);
    return 0;
  });
}

int terrace_offload_plan_depart(terrace_offload* engine) {
  return planned(engine, [&](StepPlanner& planner) { return code_of(planner.depart()); });
}

size_t terrace_offload_plan_moves(terrace_offload* engine, struct terrace_offload_move* out, size_t count) {
  if (engine == nullptr || out == nullptr || engine->engine->planner() == nullptr) return 0;
  size_t filled = 0;
  for (; filled < count; ++filled) {
    const auto move = engine->engine->planner()->next_move();
    if (!move) break;
    out[filled] = {move->number, what_of(*move)};
  }
  return filled;
}

int terrace_offload_plan_write(terrace_offload* engine, uint64_t id) {
  if (engine == nullptr) return -EINVAL;
  try {
    return -engine->engine->write_when_stored(id);
  } catch (...) {
    return -ENOMEM;
  }
}

int terrace_offload_plan_text(terrace_offload* engine, char* out, size_t bytes) {
  if (engine == nullptr || out == nullptr || bytes == 0) return -EINVAL;
  try {
    const std::string text = engine->engine->plan_text();
    const std::size_t length = std::min(text.size(), bytes - 1);
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
    return 0;
  } catch (...) {
    return -ENOMEM;
  }
}

}  // extern "C"
