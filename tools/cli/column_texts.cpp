#include "tools/cli/column_texts.h"

#include <algorithm>
#include <iterator>

namespace terrace::cli {

namespace {

struct Text {
  std::string_view name, about;
};

constexpr Text texts[] = {
    {"job", "the job's name (run --name)"},
    {"jobs", "jobs that run"},
    {"pid", "process that holds most of the job's data"},
    {"uid", "the job's user"},
    {"processes", "processes in session with the daemon"},
    {"pager", "active: pages move; inactive, unavailable: they stay"},
    {"mover", "how pages are taken out: move, mremap, copy"},
    {"io", "how the pool is read and written: io_uring, pread"},
    {"phase", "of that process: starting, running, quiescing, ending"},
    {"paused", "stopped by 'terrace pause', until 'terrace resume'"},
    {"weight", "its part of what its user is lent ('run', 'set --weight')"},
    {"group", "the [[group]] in terraced.toml that its user counts in"},
    {"budget_bytes", "DRAM that the job was granted"},
    {"dram_limit_bytes", "most DRAM that it ever has ('set --dram-limit')"},
    {"borrowed_bytes", "beyond its budget, since other jobs do not use theirs"},
    {"lent_bytes", "of its budget, what others have until it asks for it"},
    {"resident_bytes", "DRAM in use: data, freed pages kept, buffers"},
    {"stored_bytes", "data that lies in the pool only, before compression"},
    {"heap_live_bytes", "allocated and not freed, wherever it lies"},
    {"heap_peak_bytes", "most of that so far"},
    {"resident_peak_bytes", "most DRAM in use so far"},
    {"recycled_bytes", "part of resident: freed pages kept for the next allocation"},
    {"staging_bytes", "part of resident: on the way out or in, or cached"},
    {"pool_used_bytes", "space in use in the pool, after compression"},
    {"cgroup_usage_bytes", "what the job's cgroup uses (run --limit)"},
    {"cgroup_limit_bytes", "that cgroup's limit"},
    {"faults", "touches of a page that was not there"},
    {"stall_seconds", "time that threads waited in faults, summed"},
    {"evicted_bytes", "taken out from under its address, written or not"},
    {"restored_bytes", "put back under its address, read or not"},
    {"written_bytes", "to the pool, after compression"},
    {"read_bytes", "from the pool, as stored there"},
    {"written_today_bytes", "to the pool's drive since midnight (UTC)"},
    {"writes_left_bytes", "and what may be written there until the next"},
    {"writes_per_day_bytes", "what all jobs together may write there in a day"},
    {"unreported_today_bytes", "what the drive took besides, since the daemon runs"},
    {"pool_written_today_bytes", "to the pool's drive since midnight (UTC)"},
    {"pool_writes_left_bytes", "and what may be written there until the next"},
    {"allocations", "blocks allocated in Terrace's heap"},
    {"frees", "blocks freed there"},
    {"recycled_allocations", "allocations served without a fresh page"},
    {"object_bytes", "of the allocation"},
    {"times", "how many, one at the same place of each step"},
    {"step_place", "which allocation of its step it is"},
    {"born_seconds", "when: since its step began, else since the recording did"},
    {"lived_seconds", "from then, or the beginning, until it was freed, or the end"},
    {"away_seconds", "how long its bytes were out of DRAM, on their average"},
    {"left_runs", "runs of 2 MiB of it that were taken out"},
    {"returned_runs", "runs of it that came back"},
    {"waits", "touches that had to wait for it"},
    {"waited_seconds", "how long these waited, summed"},
    {"place", "DRAM, away, part away, or freed"},
    {"reason", "what became of what left"},
    {"away_byte_seconds", "bytes by seconds out of DRAM: what its absence saved"},
    {"evictions", "runs of 2 MiB taken out"},
    {"restores", "runs put back"},
    {"prefetch_hits", "restores whose bytes were in DRAM before the touch"},
    {"prefetch_wasted", "runs read ahead and dropped untouched"},
    {"refaulted_bytes", "read back soon after they had been written"},
    {"compressed_bytes", "part of resident: memory that holds compressed data"},
    {"kept_bytes", "kept compressed in DRAM instead of being written"},
    {"fetched_bytes", "and came back from there"},
    {"demoted_bytes", "part of written: kept, not wanted, moved on to the pool"},
    {"steps", "periods of the program's own that were seen through"},
    {"step_seconds", "how long one takes, on the average of them"},
    {"step_stall_seconds", "and how long it waits"},
    {"departures", "times that the program left what it had repeated"},
    {"probes", "runs taken out for a moment to see when they are touched"},
    {"probe_seconds", "what that took of the agent and of the program, about"},
    {"policy", "what plans its steps (run --policy); else the daemon's"},
    {"predicted_step_seconds", "what the plan in force says that a step takes"},
    {"measured_step_seconds", "what steps took since that plan was sent"},
    {"plan_entries", "moves out and in that it has for a step"},
    {"plan_refusal", "why the job has no plan"},
    {"plan_refusals", "times that a plan was laid aside: steps were slower with it"},
    {"planned_steps", "steps that a schedule was followed all through"},
    {"planned_out_bytes", "taken out because the schedule said so"},
    {"planned_in_bytes", "brought back because the schedule said so"},
    {"planned_late", "touches of what the schedule had not brought back yet"},
    {"unplanned_faults", "touches of what was away though a schedule was followed"},
    {"marks", "times that the program said where it is: terrace_mark()"},
    {"cancelled_evictions", "evictions taken back because the run was touched"},
    {"pinned_refusals", "evictions that the kernel refused because of a pin"},
    {"checksum_failures", "runs that came back with other bytes than were written"},
    {"io_errors", "reads and writes of the pool that failed"},
    {"lost_runs", "runs whose bytes are gone; touching one raises SIGBUS"},
    {"lost_events", "events that the daemon was too late to read"},
    {"heartbeat_age_seconds", "since that process's agent last said that it runs"},
    {"socket", "of the daemon that told"},
    {"tier", "dram, compressed (a part of it), or nvme: the pool"},
    {"capacity_bytes", "what all jobs together may have there"},
    {"promised_bytes", "what jobs were promised of it"},
    {"used_bytes", "in use there; of the pool what the files take up"},
    {"reported_bytes", "what jobs say that they use there, where that is something else"},
    {"free_bytes", "free on the pool's file system, for anybody"},
    {"directory", "of the pool"},
    {"dram_capacity_bytes", "DRAM that all jobs together may have"},
    {"dram_promised_bytes", "DRAM that jobs were promised"},
    {"dram_used_bytes", "DRAM that jobs use"},
    {"pool_capacity_bytes", "what all pools together may take"},
    {"uptime_seconds", "since the daemon started"},
    {"sessions_seen", "processes that joined since then"},
    {"daemon_version", "the daemon's version"},
    {"private", "true: of one 'terrace run'; false: for all who may connect"},
    {"pool_directory", "where pool files are made"},
    {"age_seconds", "how long ago it happened"},
    {"number", "of the event; a gap is what was missed"},
    {"session", "process, by the number that the daemon gave it"},
    {"kind", "what happened"},
    {"bytes", "of the block or the run; of a read or write, on the pool"},
    {"address", "of the block or the run"},
    {"call_site", "return address of the call that allocated it"},
    {"position", "in the process's ring of events"},
    {"errno", "of an I/O error"},
    {"text", "words, where an event has some"},
};

}  // namespace

std::string_view about_column(std::string_view name, std::string_view heading) {
  // Bytes of a tier are seen from its side.
  if (heading == "IN") return "into DRAM what is restored, into the pool what is written";
  if (heading == "OUT") return "out of DRAM what is evicted, out of the pool what is read";
  const auto* found =
      std::find_if(std::begin(texts), std::end(texts), [&](const Text& text) { return text.name == name; });
  return found == std::end(texts) ? std::string_view() : found->about;
}

}  // namespace terrace::cli
