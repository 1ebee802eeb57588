// The C API over the optimizer: errno becomes -errno, an exception -ENOMEM, and no output is touched on
// failure.
#include <cerrno>
#include <memory>
#include <string>

#include "liballoc/gpu/c_api.h"
#include "liballoc/gpu/optimizer/optimizer.h"

using terrace::liballoc::give_statistics;
using terrace::liballoc::tell_reason;
using terrace::liballoc::optimizer::Optimizer;

struct terrace_optimizer {
  std::unique_ptr<Optimizer> optimizer;
};

namespace {

// Calls function(&reason) and tells the reason of a failure. The only exceptions below are those of a host
// without memory.
template <typename Function>
int optimizer_guarded(char* reason, std::size_t reason_bytes, Function&& function) noexcept {
  int error = ENOMEM;
  std::string why;
  try {
    error = function(&why);
  } catch (...) {
  }
  if (error != 0) tell_reason(why.empty() ? "host memory is used up" : why, reason, reason_bytes);
  return -error;
}

int missing_argument(std::string* why, const char* names) {
  *why = std::string(names) + " must not be NULL";
  return EINVAL;
}

}  // namespace

extern "C" {

int terrace_optimizer_open(const terrace_optimizer_config* config, terrace_optimizer** out, char* reason,
                           std::size_t reason_bytes) {
  return optimizer_guarded(reason, reason_bytes, [&](std::string* why) {
    if (config == nullptr || out == nullptr) return missing_argument(why, "config and out");
    auto opened = std::make_unique<terrace_optimizer>();
    const int error = Optimizer::open(*config, &opened->optimizer, why);
    if (error == 0) *out = opened.release();
    return error;
  });
}

void terrace_optimizer_close(terrace_optimizer* optimizer) { delete optimizer; }

int terrace_optimizer_add(terrace_optimizer* optimizer, uint64_t elements, unsigned planes, uint64_t* id,
                          char* reason, std::size_t reason_bytes) {
  return optimizer_guarded(reason, reason_bytes, [&](std::string* why) {
    if (optimizer == nullptr || id == nullptr) return missing_argument(why, "optimizer and id");
    return optimizer->optimizer->add(elements, planes, id, why);
  });
}

int terrace_optimizer_read(terrace_optimizer* optimizer, uint64_t id, float* const* planes, char* reason,
                           std::size_t reason_bytes) {
  return optimizer_guarded(reason, reason_bytes, [&](std::string* why) {
    if (optimizer == nullptr || planes == nullptr) return missing_argument(why, "optimizer and planes");
    return optimizer->optimizer->read(id, planes, why);
  });
}

int terrace_optimizer_write(terrace_optimizer* optimizer, uint64_t id, const float* const* planes,
                            char* reason, std::size_t reason_bytes) {
  return optimizer_guarded(reason, reason_bytes, [&](std::string* why) {
    if (optimizer == nullptr || planes == nullptr) return missing_argument(why, "optimizer and planes");
    return optimizer->optimizer->write(id, planes, why);
  });
}

int terrace_optimizer_step(terrace_optimizer* optimizer, terrace_optimizer_update* updates, std::size_t count,
                           const terrace_optimizer_flow* flow, std::size_t* failed, char* reason,
                           std::size_t reason_bytes) {
  return optimizer_guarded(reason, reason_bytes, [&](std::string* why) {
    if (optimizer == nullptr || failed == nullptr) return missing_argument(why, "optimizer and failed");
    return optimizer->optimizer->step(updates, count, flow, failed, why);
  });
}

int terrace_optimizer_get_statistics(terrace_optimizer* optimizer, terrace_optimizer_statistics* out) {
  return give_statistics(optimizer == nullptr ? nullptr : optimizer->optimizer.get(), out);
}

const char* terrace_optimizer_path(terrace_optimizer* optimizer) {
  return optimizer == nullptr ? "" : optimizer->optimizer->path();
}

const char* terrace_optimizer_warning(terrace_optimizer* optimizer) {
  return optimizer == nullptr ? "" : optimizer->optimizer->warning();
}

}  // extern "C"
