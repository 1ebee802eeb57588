// Traces, machines, schedules and other people's profiles as an attacker would write them: reading ends with
// a value or a message, and what was accepted as a trace or a machine is written and read back the same. The
// first byte chooses the reader, so that one corpus serves all.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/planner/machine_json.h"
#include "daemon/planner/trace_json.h"
#include "tools/import/gunzip.h"
#include "tools/import/import.h"

using namespace terrace;
using namespace terrace::import;
using namespace terrace::planner;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A trace that any reader gave refers only to tensors that are there, and survives its own form.
void check_trace(const wire::Trace& trace) {
  for (const wire::TraceOp& op : trace.ops) {
    for (const auto* list : {&op.inputs, &op.outputs, &op.sign_only}) {
      for (const std::uint32_t t : *list) require(t < trace.tensors.size());
    }
  }
  const std::string written = trace_json(trace);
  const Result<wire::Trace> back = parse_trace(written);
  require(back && trace_json(*back) == written);
  require(max_live_bytes(instance_of(trace).buffers) < (std::uint64_t{1} << 63));
}

void check_import(std::string_view text, TraceFormat format) {
  const Result<Imported> imported = import_trace(text, format);
  require(bool(imported) == imported.error.empty());
  if (imported) check_trace(imported->trace);
}

void check_machine(std::string_view text) {
  const Result<Machine> machine = parse_machine(text);
  if (!machine) return require(!machine.error.empty());
  const std::string written = machine_json(*machine);
  const Result<Machine> back = parse_machine(written);
  require(back && machine_json(*back) == written);
}

void check_schedule(std::string_view text) {
  wire::Trace trace{"t", "", {}, {}};
  trace.tensors = {{1, 8, {}, false, {}, {}, {}}, {2, 8, {}, false, {}, {}, {}}};
  trace.ops = {{"a", 1, {0}, {1}, 0, {}, true}, {"b", 1, {1}, {}, 0, {}, true}};
  const Machine machine{
      "m",          {{"gpu", 8}, {"dram", 8}, {"ssd", 8}}, {{"l", 1, 1, 0, 0}}, {{1, {0}}, {2, {0}}}, {},
      {{1, 2, {0}}}};
  const Result<wire::Schedule> schedule = parse_schedule(text, trace, machine);
  if (!schedule) return require(!schedule.error.empty());
  for (const wire::ScheduleEntry& entry : schedule->entries)
    require(entry.object < 2 && entry.at <= 2 && entry.at <= entry.by && entry.by <= entry.at + 2);
  const std::string written = schedule_json(*schedule, trace, machine);
  const Result<wire::Schedule> back = parse_schedule(written, trace, machine);
  require(back && schedule_json(*back, trace, machine) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t choice = data[0] % (all_trace_formats.size() + 3);
  if (choice < all_trace_formats.size()) {
    (void)recognise(text);
    check_import(text, all_trace_formats.at(choice));
  } else if (choice == all_trace_formats.size()) {
    check_machine(text);
  } else if (choice == all_trace_formats.size() + 1) {
    check_schedule(text);
  } else {
    const Result<std::string> unpacked = gunzip(text, 1 << 20);
    require(!unpacked || unpacked->size() <= 1 << 20);
  }
  return 0;
}
