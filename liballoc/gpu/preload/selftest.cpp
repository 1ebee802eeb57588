#include "liballoc/gpu/preload/selftest.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "liballoc/gpu/preload/hooks.h"
#include "liballoc/gpu/preload/redirect.h"

namespace terrace::liballoc::gpu {

namespace {

const Hook* hook_named(const char* name) {
  for (const Hook& hook : allocation_hooks())
    if (std::strcmp(hook.name, name) == 0) return &hook;
  return nullptr;
}

bool is_hooked(const char* name) { return hook_named(name) != nullptr; }

// CUDA's own libraries and this one call each other as they must.
bool is_cuda_itself(const LoadedObject& object) {
  const std::string name = object.file_name();
  return name.starts_with("libcudart.so") || name.starts_with("libcuda.so") ||
         name.starts_with("libterrace_gpu");
}

std::string object_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "an unknown place";
}

void append(std::string* list, const std::string& word) {
  if (list->find(word) == std::string::npos) *list += (list->empty() ? "" : ", ") + word;
}

// Calls of one object, by where they go.
struct Calls {
  std::string seen, not_called, elsewhere, target;
};

// What a program's own lazy slot will be filled with is what the global scope has first. Of a library that
// came later the scope is not known, but that it never called the function by the end is.
void sort_in(const Import& import, Phase phase, Calls* calls) {
  const void* target = import.target;
  if (!import.is_bound && phase == Phase::start) target = dlsym(RTLD_DEFAULT, import.name.c_str());
  if (!import.is_bound && phase == Phase::end) return append(&calls->not_called, import.name);
  if (target == hook_named(import.name.c_str())->function) return append(&calls->seen, import.name);
  append(&calls->elsewhere, import.name);
  calls->target = object_of(target);
}

std::string program_path() {
  char path[PATH_MAX] = "";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "this program";
}

struct Collected {
  std::string program = program_path();
  std::vector<LoadedObject> objects;
};

int collect(dl_phdr_info* info, std::size_t, void* argument) {
  auto* collected = static_cast<Collected*>(argument);
  collected->objects.emplace_back(*info, collected->program);
  return 0;
}

// In one piece, as the job's other processes write, too; paths may be longer than a Message.
void say(const std::string& text) {
  const std::string line = "terrace: GPU self-test: " + text + "\n";
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

// Paths that were spoken of; kept for good, as the end may be later than the static objects' end.
std::set<std::string>& spoken_of() {
  static auto* paths = new std::set<std::string>;
  return *paths;
}

void report(Phase phase) {
  Collected collected;
  dl_iterate_phdr(collect, &collected);
  for (const LoadedObject& object : collected.objects) {
    if (spoken_of().contains(object.path())) continue;
    const std::string verdict = verdict_on(object, phase);
    if (verdict.empty() && phase == Phase::end) continue;
    if (!verdict.empty()) say(verdict);
    spoken_of().insert(object.path());
  }
}

bool is_asked_for() {
  const char* value = secure_getenv("TERRACE_GPU_SELFTEST");
  return value != nullptr && std::strcmp(value, "1") == 0 && heap_is_wanted();
}

[[gnu::constructor]] void speak_at_start() {
  if (is_asked_for()) report(Phase::start);
}

[[gnu::destructor]] void speak_at_end() {
  if (!is_asked_for()) return;
  report(Phase::end);
  say(program_path() + ": " + std::to_string(allocations_served()) + " allocations went through Terrace");
}

}  // namespace

std::string verdict_on(const LoadedObject& object, Phase phase) {
  if (is_cuda_itself(object)) return "";
  Calls calls;
  for (const Import& import : object.imports(is_hooked)) sort_in(import, phase, &calls);
  if (!calls.elsewhere.empty())
    return object.path() + ": NOT SEEN: " + calls.elsewhere + " of " + calls.target +
           " (opened with RTLD_DEEPBIND?); open it without, or link it after Terrace";
  if (!calls.seen.empty()) return object.path() + ": " + calls.seen + ": seen";
  if (!calls.not_called.empty()) return object.path() + ": " + calls.not_called + ": never called";
  if (object.contains_cuda_runtime())
    return object.path() +
           ": NOT SEEN: it has a CUDA runtime of its own inside (cudart_static); link it with -cudart shared";
  return "";
}

}  // namespace terrace::liballoc::gpu
