// The C API over the engine: errno becomes -errno, an exception -ENOMEM, and no output is touched on failure.
#include <cerrno>
#include <memory>
#include <string>

#include "liballoc/gpu/c_api.h"
#include "liballoc/gpu/offload/api/engine_handle.h"
#include "liballoc/gpu/offload/engine/engine.h"
#include "liballoc/gpu/terrace_gpu.h"

using terrace::liballoc::give_statistics;
using terrace::liballoc::tell_reason;
using terrace::liballoc::offload::Engine;
using terrace::liballoc::offload::Settings;
using terrace::liballoc::offload::StepPlanner;

namespace {

// The only exceptions below are those of a host without memory.
template <typename Function>
int guarded(Function&& function) noexcept {
  try {
    return -function();
  } catch (...) {
    return -ENOMEM;
  }
}

// What `function` says of the engine.
template <typename Function>
int asked(terrace_offload* engine, Function&& function) noexcept {
  if (engine == nullptr) return -EINVAL;
  return guarded([&] { return function(*engine->engine); });
}

// 0 or 1, or the error.
template <typename Function>
int answered(terrace_offload* engine, Function&& function) noexcept {
  bool answer = false;
  const int result = asked(engine, [&](Engine& of) { return function(of, &answer); });
  return result != 0 ? result : static_cast<int>(answer);
}

int open_engine(const terrace_offload_config& config, terrace_offload** out, std::string* reason) {
  Settings settings;
  if (const int error = terrace::liballoc::offload::read_settings(config, &settings, reason); error != 0)
    return error;
  auto opened = std::make_unique<terrace_offload>();
  if (const int error = Engine::open(settings, &opened->engine, reason); error != 0) return error;
  *out = opened.release();
  return 0;
}

// The step is over for the planner, too. The error of the end is passed on.
int with_plan(Engine& engine, int error) {
  if (StepPlanner* planner = engine.planner(); planner != nullptr) planner->end_step(engine.moment());
  return error;
}

}  // namespace

extern "C" {

int terrace_offload_open(const terrace_offload_config* config, terrace_offload** out, char* reason,
                         std::size_t reason_bytes) {
  return guarded([&] {
    std::string why;
    if (config == nullptr || out == nullptr) why = "config and out must not be NULL";
    const int error = why.empty() ? open_engine(*config, out, &why) : EINVAL;
    if (error != 0) tell_reason(why, reason, reason_bytes);
    return error;
  });
}

void terrace_offload_close(terrace_offload* engine) { delete engine; }

int terrace_offload_store(terrace_offload* engine, const terrace_offload_tensor* tensor, void* stream,
                          uint64_t* id) {
  if (tensor == nullptr) return -EINVAL;
  return asked(engine, [&](Engine& of) { return of.store(*tensor, stream, id, nullptr); });
}

int terrace_offload_left(terrace_offload* engine, uint64_t id) {
  return answered(engine, [&](Engine& of, bool* left) { return of.left(id, left); });
}

int terrace_offload_leave(terrace_offload* engine, uint64_t id, void* stream) {
  return answered(engine, [&](Engine& of, bool* left) { return of.leave(id, stream, left); });
}

int terrace_offload_store_left(terrace_offload* engine, const terrace_offload_tensor* tensor, void* stream,
                               uint64_t* id) {
  if (tensor == nullptr) return -EINVAL;
  return answered(engine, [&](Engine& of, bool* left) { return of.store(*tensor, stream, id, left); });
}

int terrace_offload_fetch(terrace_offload* engine, uint64_t id, void* to, void* stream) {
  return asked(engine, [&](Engine& of) { return of.fetch(id, to, stream); });
}

int terrace_offload_arrive(terrace_offload* engine, uint64_t id, void* stream) {
  return asked(engine, [&](Engine& of) { return of.arrive(id, stream); });
}

int terrace_offload_fetch_arrive(terrace_offload* engine, uint64_t id, void* to, void* stream) {
  return asked(engine, [&](Engine& of) { return of.fetch_arrive(id, to, stream); });
}

int terrace_offload_release(terrace_offload* engine, uint64_t id, void* stream) {
  return asked(engine, [&](Engine& of) { return of.release(id, stream); });
}

int terrace_offload_end_step(terrace_offload* engine) {
  return asked(engine, [&](Engine& of) { return with_plan(of, of.end_step()); });
}

int terrace_offload_next_step(terrace_offload* engine) {
  return asked(engine, [&](Engine& of) { return with_plan(of, of.next_step()); });
}

size_t terrace_offload_expect(terrace_offload* engine, uint64_t id, uint64_t* out, size_t count) {
  if (engine == nullptr || out == nullptr) return 0;
  return engine->engine->expect(id, out, count);
}

int terrace_offload_get_statistics(terrace_offload* engine, terrace_offload_statistics* out) {
  return give_statistics(engine == nullptr ? nullptr : engine->engine.get(), out);
}

const char* terrace_offload_path(terrace_offload* engine) {
  return engine == nullptr ? "" : engine->engine->path();
}

const char* terrace_offload_warning(terrace_offload* engine) {
  return engine == nullptr ? "" : engine->engine->warning();
}

}  // extern "C"
