#include "tools/cli/plan_load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemon/planner/machine_json.h"
#include "daemon/planner/order/order.h"
#include "daemon/planner/simulate/machines.h"
#include "tools/cli/budget.h"
#include "tools/cli/exit_code.h"
#include "tools/import/gunzip.h"
#include "tools/import/import.h"

namespace terrace::cli {

namespace {

constexpr std::uint64_t most_file_bytes = std::uint64_t{512} << 20;
constexpr std::uint64_t most_unpacked_bytes = std::uint64_t{2} << 30;

template <class T>
Loaded<T> failed(int exit_code, std::string why) {
  return {refused<T>(std::move(why)), exit_code};
}

int exit_code_of(int error) {
  if (error == ENOENT || error == ENOTDIR) return exit_not_found;
  return error == EACCES || error == EPERM ? exit_permission : exit_failure;
}

// 0 or an errno value; EFBIG for what is larger than is read.
int read_all(int fd, std::string* text) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (;;) {
    const std::size_t have = text->size();
    text->resize(have + piece);
    const ssize_t got = read(fd, text->data() + have, piece);
    const int error = errno;
    text->resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return 0;
    if (got < 0 && error != EINTR) return error;
    if (text->size() > most_file_bytes) return EFBIG;
  }
}

Loaded<std::string> read_packed(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return failed<std::string>(exit_code_of(errno), fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  const int error = read_all(fd, &text);
  if (!standard_input) close(fd);
  if (error == EFBIG)
    return failed<std::string>(exit_failure,
                               fmt::format("{}: larger than {}, which is more than a trace takes", path,
                                           exact_size(most_file_bytes)));
  if (error != 0)
    return failed<std::string>(exit_code_of(error), fmt::format("{}: {}", path, std::strerror(error)));
  return {ok(std::move(text)), exit_ok};
}

// "/data/BERT_Base-256.json.gz" -> "BERT_Base-256"
std::string name_from(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  for (const char* suffix : {".gz", ".json", ".csv", ".onnx", ".log"})
    if (name.extension() == suffix) name = name.stem();
  return path == "-" || name.empty() ? "standard input" : name.string();
}

Result<import::TraceFormat> format_of(const std::string& text, const std::string& name) {
  if (name.empty()) return import::recognise(text);
  if (const auto format = import::trace_format(name)) return ok(*format);
  std::string known;
  for (const import::TraceFormat f : import::all_trace_formats)
    known += std::string(known.empty() ? "" : ", ") + import::trace_format_name(f);
  return refused<import::TraceFormat>(fmt::format("--format {}: there are {}", name, known));
}

Result<PlanInput> lifetimes(const std::string& text) {
  auto instance = import::parse_csv(text);
  if (!instance) return refused<PlanInput>(std::move(instance.error));
  PlanInput input;
  input.instance = std::move(*instance);
  return ok(std::move(input));
}

Result<PlanInput> step(const std::string& text, import::TraceFormat format) {
  auto imported = import::import_trace(text, format);
  if (!imported) return refused<PlanInput>(std::move(imported.error));
  PlanInput input;
  input.trace = std::make_unique<wire::Trace>(std::move(imported->trace));
  input.instance = planner::instance_of(*input.trace);
  input.notes = std::move(imported->notes);
  return ok(std::move(input));
}

}  // namespace

Loaded<std::string> load_text(const std::string& path) {
  Loaded<std::string> packed = read_packed(path);
  if (!packed.result || !import::is_gzip(*packed.result)) return packed;
  auto text = import::gunzip(*packed.result, most_unpacked_bytes);
  if (!text) return failed<std::string>(exit_failure, fmt::format("{}: {}", path, text.error));
  return {std::move(text), exit_ok};
}

Loaded<PlanInput> load_plan_input(const std::string& path, const std::string& format_name) {
  const Loaded<std::string> text = load_text(path);
  if (!text.result) return failed<PlanInput>(text.exit_code, text.result.error);
  const auto format = format_of(*text.result, format_name);
  if (!format)
    return failed<PlanInput>(format_name.empty() ? exit_failure : exit_usage,
                             format_name.empty() ? path + ": " + format.error : format.error);
  auto input = *format == import::TraceFormat::csv ? lifetimes(*text.result) : step(*text.result, *format);
  if (!input) return failed<PlanInput>(exit_failure, fmt::format("{}: {}", path, input.error));
  if (input->instance.buffers.empty())
    return failed<PlanInput>(exit_failure, path + ": there is nothing in it to place");
  input->format = import::trace_format_name(*format);
  // Kineto's name is the path that the profile once had.
  input->instance.name = name_from(input->instance.name.empty() ? path : input->instance.name);
  return {std::move(input), exit_ok};
}

std::vector<std::string> order_names() {
  return {"recorded", "breadth_first", "reverse_depth_first", "memory_minimising"};
}

std::string put_in_order(PlanInput* input, const std::string& order) {
  if (order == "recorded") return "";
  if (input->trace == nullptr)
    return input->instance.name + " holds lifetimes only, no operations: leave --order out";
  const wire::Trace& trace = *input->trace;
  if (!trace.reads_known)
    return input->instance.name +
           " does not tell what each operation reads, so another order could use a tensor after its release: "
           "leave --order out, or record the step with tools/profile/profile_step.py";
  *input->trace =
      planner::reorder(trace, order == "breadth_first"         ? planner::breadth_first(trace)
                              : order == "reverse_depth_first" ? planner::reverse_depth_first(trace)
                                                               : planner::memory_minimising(trace));
  const std::string name = input->instance.name + " " + order;
  input->instance = planner::instance_of(*input->trace);
  input->trace->name = input->instance.name = name;
  return "";
}

Loaded<planner::Machine> load_machine(const std::string& name_or_path) {
  if (auto machine = planner::built_in_machine(name_or_path)) return {ok(std::move(*machine)), exit_ok};
  const Loaded<std::string> text = load_text(name_or_path);
  if (text.exit_code == exit_not_found)
    return failed<planner::Machine>(
        exit_not_found,
        fmt::format("--machine {}: no such file, and of the machines that are built in there are: {}",
                    name_or_path, fmt::join(planner::built_in_machine_names(), ", ")));
  if (!text.result) return failed<planner::Machine>(text.exit_code, text.result.error);
  auto machine = planner::parse_machine(*text.result);
  if (!machine)
    return failed<planner::Machine>(exit_failure, fmt::format("{}: {}", name_or_path, machine.error));
  return {std::move(machine), exit_ok};
}

}  // namespace terrace::cli
