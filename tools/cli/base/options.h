// What the user asked for, one struct per verb, filled by the option table (option_table.cpp) and nothing
// else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::cli {

struct RunOptions {
  std::string dram, limit;  // a size or a percentage
  std::string plan;         // a file: of point/point.h
  std::string pool, pool_size, tiers;
  std::string threshold;
  std::string compress, mover, io, log;  // empty: the library's default
  std::string gpu, gpu_budget;
  std::string offload, offload_budget, offload_tiers, offload_min, offload_limit;
  std::string writes_per_day, writes_total;
  std::string weight, policy;
  std::string socket, name;
  std::string json_summary;
  bool is_private = false;
  bool gpu_selftest = false;
  bool disable = false;
  bool summary = false;
  std::vector<std::string> command;
};

// status, jobs, tiers, events, top: what is shown of a daemon, and how.
struct ViewOptions {
  std::string socket;
  bool json = false;
  bool bytes = false;
  bool no_headings = false;
  std::vector<std::string> columns;  // "+COL" adds, "COL" selects
  bool watch_given = false;
  std::vector<double> watch;  // seconds between rows, how many rows
  int last = 20;              // events: how many to begin with, up to most_events
};

inline constexpr int most_events = 4096;  // that a daemon keeps (daemon/sessions/journal.h)

// set, trim, pause, resume: what a running job is told.
struct ChangeOptions {
  std::string job;  // empty: all (trim)
  std::string uid;  // of the job's user; empty: the caller, or whose job alone has the name
  std::string dram;
  std::string weight;
  std::string dram_limit, pool_limit, writes_limit, gpu_limit;
  std::string socket;
  bool json = false;
  bool bytes = false;
};

// timeline, lifetimes: which running job is recorded, for how long, and what is made of it.
struct RecordOptions : ChangeOptions {
  double seconds = 10;
  std::string html, perfetto, trace;  // timeline
  int last = 20;                      // lifetimes: how many objects
  std::vector<std::string> columns;   // likewise
};

struct DoctorOptions {
  std::string pool = "/var/tmp";
  bool json = false;
  bool check = false;
  bool quick = false;
};

struct BenchOptions {
  std::vector<std::string> words;  // the benchmark's name and its own arguments
};

struct PlanOptions {
  RecordOptions record;  // of which job the step is, instead of a trace; empty: of none
  std::string trace, machine, order = "recorded";
  std::vector<std::string> policies{"all"};
  std::string capacity;
  double seconds = 10;  // for each search
  std::uint64_t seed = 0;
  std::string from;  // a schedule of the same step, which joint begins with
  std::string plot, out, perfetto;
  bool json = false;
  bool bytes = false;
  bool list = false;
  bool budget_curve = false;
  std::string point;  // of the curve: a size or a percentage
};

struct ImportOptions {
  std::string file, format, out;
};

struct Options {
  RunOptions run;
  ViewOptions view;
  ChangeOptions change;
  RecordOptions record;
  DoctorOptions doctor;
  BenchOptions bench;
  PlanOptions plan;
  ImportOptions import;
  bool version_json = false;
  std::string shell;
};

}  // namespace terrace::cli
