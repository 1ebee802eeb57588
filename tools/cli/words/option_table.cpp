#include "tools/cli/words/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/cli/plan/plan_load.h"
#include "tools/cli/words/completion.h"
#include "tools/cli/words/help_format.h"

namespace terrace::cli {

namespace {

// An option without a value is no option: `--dram "$LIMIT"` with LIMIT unset would otherwise run without a
// budget. An empty variable counts as none and never comes here.
CLI::Validator has_value() {
  return CLI::Validator(
      [](std::string& value) {
        return value.empty() ? std::string("the value is empty; give one, or leave the option out")
                             : std::string();
      },
      "");
}

// Choices may have commas in them ("dram,nvme"), which CLI::IsMember would list as if they were more choices.
CLI::Validator one_of(const std::vector<std::string>& choices) {
  const std::string list = fmt::format("{}", fmt::join(choices, "|"));
  return CLI::Validator(
      [choices, list](std::string& value) {
        const bool known = std::find(choices.begin(), choices.end(), value) != choices.end();
        return known ? std::string() : fmt::format("'{}' is none of {}", value, list);
      },
      list);
}

// CLI::PositiveNumber and NonNegativeNumber name the largest double there is, in all its digits.
CLI::Validator above_zero() {
  return CLI::Validator(
      [](std::string& value) {
        double number = 0;
        return CLI::detail::lexical_cast(value, number) && number > 0 && number <= 1e9
                   ? std::string()
                   : fmt::format("'{}' is not a number above 0 and up to 1000000000", value);
      },
      "");
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& value) {
        const bool digits = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string() : fmt::format("'{}' is not a whole number from 0 on", value);
      },
      "");
}

void add_run(CLI::App* app, RunOptions* o) {
  CLI::App* run =
      app->add_subcommand("run", "Run a command, and keep its large allocations within a budget of DRAM");
  // Only for --help: split_command() has taken the command away before the table sees the words.
  run->add_option("command", o->command,
                  "The command and its own options; put -- in front of a command that begins with -");
  for (const RunEntry& entry : run_entries()) {
    CLI::Option* option = run->add_option(entry.name, o->*entry.value, entry.about)->type_name(entry.type);
    option->group(entry.group);
    if (!entry.choices.empty()) option->check(one_of(entry.choices));
    if (entry.variable != nullptr) option->envname(entry.variable);
  }
  run->add_flag("--private", o->is_private,
                "Start a daemon for this job alone, even where the machine's service runs")
      ->group(group_daemon);
  run->add_flag("--gpu-selftest", o->gpu_selftest,
                "With --gpu: print which parts of the program allocate GPU memory through Terrace "
                "(TERRACE_GPU_SELFTEST=1)")
      ->group(group_gpu);
  run->add_flag("--summary", o->summary,
                "Print to standard error, at the end, what Terrace kept, moved and saved")
      ->group(group_reports);
  run->add_flag("--disable", o->disable, "Load the library, but let it change nothing (TERRACE_DISABLE=1)")
      ->group(group_reports);
}

CLI::App* add_view(CLI::App* app, const char* name, const char* about, ViewOptions* o) {
  CLI::App* view = app->add_subcommand(name, about);
  view->add_option("--socket", o->socket,
                   "Ask the daemon at this socket (default: the service and each private daemon of yours)")
      ->type_name("PATH")
      ->envname("TERRACE_SOCKET");
  view->add_flag("--bytes", o->bytes, "Print sizes as plain numbers of bytes");
  return view;
}

void add_table_view(CLI::App* app, const char* name, const char* about, ViewOptions* o) {
  CLI::App* view = add_view(app, name, about, o);
  view->add_flag("--json", o->json, "Print JSON, with --watch one object on each line");
  view->add_flag("--no-headings", o->no_headings, "Print no headings");
  view->add_option("-o,--columns", o->columns,
                   "Print these columns, by name or heading; +COL adds a column; '-o help' lists them")
      ->type_name("COL")
      ->delimiter(',')
      ->allow_extra_args(false);
  view->add_option(
          "--watch", o->watch,
          "Print again every INTERVAL seconds (default 1), COUNT times, with rates from the second time on")
      ->type_name("[INTERVAL [COUNT]]")
      ->expected(0, 2)
      ->check(above_zero())
      ->each([o](const std::string&) { o->watch_given = true; });
}

void add_views(CLI::App* app, ViewOptions* o) {
  add_table_view(app, "status", "Show the daemon, its budget and its totals", o);
  add_table_view(app, "jobs", "Show a row for each job", o);
  add_table_view(app, "tiers", "Show a row for each tier: its capacity, its use, and its traffic", o);
  add_table_view(app, "events", "Show the latest evictions, restores, faults and mishaps", o);
  CLI::App* events = app->get_subcommand("events");
  events
      ->add_option(
          "-n,--last", o->last,
          "Show this many events (default 20); with --watch, show this many and then all that follow")
      ->type_name("N")
      ->check(CLI::Range(1, most_events));
  events->get_option("--watch")->description(
      "Look again every INTERVAL seconds (default 1), COUNT times, and print what has happened since");
  add_view(app, "top", "Watch jobs on the whole screen; q quits", o);
}

CLI::App* add_change(CLI::App* app, const char* name, const char* about, ChangeOptions* o) {
  CLI::App* change = app->add_subcommand(name, about);
  change->add_option("job", o->job, "The job's name, as 'terrace jobs' shows it");
  change->add_option("--uid", o->uid, "As root: the job belongs to the user with this number")
      ->type_name("UID")
      ->check(whole_number());
  change
      ->add_option("--socket", o->socket,
                   "Ask the daemon at this socket (default: the service and each private daemon of yours)")
      ->type_name("PATH")
      ->envname("TERRACE_SOCKET");
  change->add_flag("--bytes", o->bytes, "Print sizes as plain numbers of bytes");
  change->add_flag("--json", o->json, "Print JSON");
  return change;
}

void add_changes(CLI::App* app, ChangeOptions* o) {
  const auto of_one_job = [&](const char* name, const char* about) {
    CLI::App* verb = add_change(app, name, about, o);
    verb->get_option("job")->required();
    return verb;
  };
  CLI::App* set = of_one_job("set", "Change a running job's budget, weight or limits");
  // One of them at a time.
  std::vector<CLI::Option*> before;
  const auto add = [&](const char* name, std::string& value, const char* about, const char* type) {
    CLI::Option* option = set->add_option(name, value, about)->type_name(type);
    for (CLI::Option* other : before) option->excludes(other);
    before.push_back(option);
  };
  add("--dram", o->dram, "Keep at most this much of the job's data in DRAM from now on", "SIZE|PCT%");
  add("--weight", o->weight, "Lend the job N times what a job of yours with weight 1 gets; N is 1 to 1000",
      "N");
  add("--dram-limit", o->dram_limit,
      "Keep at most this much of the job in DRAM, promised or lent; none removes the limit",
      "SIZE|PCT%|none");
  add("--pool-limit", o->pool_limit, "Promise the job at most this much pool space; none removes the limit",
      "SIZE|none");
  add("--writes-limit", o->writes_limit,
      "Let the job write at most this much to the pool's drive in a day; none removes the limit",
      "SIZE|none");
  add("--gpu-limit", o->gpu_limit,
      "Grant the job at most this much of each GPU's memory; none removes the limit", "SIZE|none");
  add_change(
      app, "trim",
      "Give memory that a job keeps for reuse back to the kernel; without JOB, do so for all your jobs", o);
  of_one_job("pause", "Move a job's large memory to its pool, and stop the job");
  of_one_job("resume", "Let a paused job go on with the budget that it had");
}

void add_records(CLI::App* app, RecordOptions* o) {
  const auto of_a_recording = [&](const char* name, const char* about) {
    CLI::App* verb = add_change(app, name, about, o);
    verb->add_option("--seconds", o->seconds,
                     "Record for so many seconds (default 10); Ctrl-C ends the recording early")
        ->type_name("SECONDS")
        ->check(above_zero());
    return verb;
  };
  CLI::App* timeline = of_a_recording(
      "timeline", "Record what a running job's memory does, and write a page or a trace of it");
  timeline->remove_option(timeline->get_option("--bytes"));
  timeline->remove_option(timeline->get_option("--json"));
  timeline->get_option("job")->required();
  timeline->add_option("--html", o->html, "Write a page for a browser, in one file that loads nothing else")
      ->type_name("FILE");
  timeline->add_option("--perfetto", o->perfetto, "Write a trace for ui.perfetto.dev")->type_name("FILE");
  timeline
      ->add_option("--trace", o->trace,
                   "Write one step as a trace for 'terrace plan', packed where the name ends in .gz")
      ->type_name("FILE");
  CLI::App* lifetimes = of_a_recording(
      "lifetimes",
      "Show which allocations of a running job are idle, where they lie, and who waits for them");
  lifetimes->add_option("-n,--last", o->last, "Show this many allocations (default 20)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  lifetimes
      ->add_option("-o,--columns", o->columns,
                   "Print these columns, by name or heading; +COL adds a column; '-o help' lists them")
      ->type_name("COL")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_doctor(CLI::App* app, DoctorOptions* o) {
  CLI::App* doctor =
      app->add_subcommand("doctor", "Show what this machine can do, and how to get what is missing");
  doctor
      ->add_option("--pool", o->pool,
                   "Examine this pool directory, or several with commas (default /var/tmp)")
      ->type_name("DIR[,DIR...]")
      ->envname("TERRACE_POOL_DIR");
  doctor->add_flag("--json", o->json, "Print JSON");
  doctor->add_flag("--check", o->check, "Exit with 6 where something is missing that 'terrace run' wants");
  doctor->add_flag("--quick", o->quick, "Measure no speeds");
}

void add_plan_outputs(CLI::App* plan, PlanOptions* o) {
  plan->add_flag("--json", o->json, "Print JSON");
  plan->add_flag("--bytes", o->bytes, "Print sizes as plain numbers of bytes");
  plan->add_option("--plot", o->plot,
                   "Draw the best plan into PREFIX-placement and PREFIX-memory, .svg and .png")
      ->type_name("PREFIX");
  plan->add_option(
          "--out", o->out,
          "Write the best schedule to FILE; without --machine the best placement, with --point that point")
      ->type_name("FILE");
  plan->add_option("--perfetto", o->perfetto,
                   "Write the timeline of the best step as a trace for ui.perfetto.dev")
      ->type_name("FILE");
}

void add_plan_job(CLI::App* plan, RecordOptions* o) {
  CLI::Option* job =
      plan->add_option("--job", o->job, "Plan the step of a running job, which is recorded now")
          ->type_name("JOB");
  plan->get_option("trace")->excludes(job);
  plan->add_option("--seconds", o->seconds,
                   "Record the job for so many seconds (default 10); Ctrl-C ends the recording early")
      ->type_name("SECONDS")
      ->check(above_zero())
      ->needs(job);
  plan->add_option("--uid", o->uid, "As root: the job belongs to the user with this number")
      ->type_name("UID")
      ->check(whole_number())
      ->needs(job);
  plan->add_option(
          "--socket", o->socket,
          "Ask the daemon at this socket for the job (default: the service and each private daemon of yours)")
      ->type_name("PATH")
      ->envname("TERRACE_SOCKET");
}

void add_plan(CLI::App* app, PlanOptions* o) {
  CLI::App* plan =
      app->add_subcommand("plan", "Plan a training step: where its buffers lie, and what moves when");
  plan->add_option("trace", o->trace,
                   "The step: a trace, or a file that 'terrace import' reads; - for standard input");
  add_plan_job(plan, &o->record);
  plan->add_option(
          "--machine", o->machine,
          "Take tiers and links from a file, or from a machine that has a name (--list); default with "
          "--job: DRAM and the pool, as measured")
      ->type_name("FILE|NAME");
  plan->add_option("--policy", o->policies, "Compare these policies (default: all)")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  plan->add_option("--order", o->order, "Run the operations in this order (default recorded)")
      ->type_name("ORDER")
      ->check(CLI::IsMember(order_names()));
  plan->add_option(
          "--capacity", o->capacity,
          "Plan for this much memory: a search ends as soon as a plan fits, and the machine's first tier "
          "has this size")
      ->type_name("SIZE");
  plan->add_option("--time", o->seconds, "Give each search so many seconds (default 10; 0: no limit)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  plan->add_option(
          "--from", o->from,
          "Let the joint search begin with this schedule of the same step, and try a tenth of the plans")
      ->type_name("FILE")
      ->needs("--machine")
      ->excludes("--job");
  plan->add_option("--seed", o->seed, "Seed the searches that draw random numbers (default 0)")
      ->type_name("N")
      ->check(whole_number());
  plan->add_flag(
      "--budget-curve", o->budget_curve,
      "Show the smallest memory of the first tier that works, and the step's time with ten budgets");
  plan->add_option("--point", o->point,
                   "Add this budget to the curve (a percentage is of what lives at once), and write its "
                   "point to --out for 'terrace run --plan'")
      ->type_name("SIZE|PCT%")
      ->needs("--budget-curve");
  add_plan_outputs(plan, o);
  plan->add_flag("--list", o->list,
                 "List the policies with their sources, and the machines that have a name");
  plan->footer(
      "With a machine, BOUND stands beside each SLOWDOWN: no schedule can be faster. A linear programme\n"
      "over operations, the first tier's room and the links proves this.");
}

void add_import(CLI::App* app, ImportOptions* o) {
  CLI::App* import_app =
      app->add_subcommand("import", "Turn another program's record of a step into a trace");
  import_app->add_option("file", o->file, "The record; - for standard input")->required();
  import_app
      ->add_option("--format", o->format,
                   "Read the record as this format (default: recognised by its content)")
      ->type_name("NAME");
  import_app
      ->add_option("--out", o->out,
                   "Write the trace, packed where the name ends in .gz; - for standard output")
      ->type_name("FILE");
}

void add_rest(CLI::App* app, Options* o) {
  app->add_subcommand("bench", "Run a benchmark beside its baseline; without a name, list the benchmarks")
      ->add_option("name", o->bench.words, "The benchmark and its own options");
  app->add_subcommand("version", "Print the version")->add_flag("--json", o->version_json, "Print JSON");
  app->add_subcommand("completion", "Print a completion script for a shell")
      ->add_option("shell", o->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(completion_shells));
}

bool takes_value(const CLI::App& verb, const std::string& word) {
  const CLI::Option* option = verb.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

std::unique_ptr<CLI::App> make_option_table(Options* options) {
  auto app =
      std::make_unique<CLI::App>("Terrace: more memory for a training job than its DRAM has", "terrace");
  app->formatter(std::make_shared<HelpFormat>());
  app->require_subcommand(0, 1);
  app->failure_message([](const CLI::App* table, const CLI::Error& error) {
    return "terrace: " + CLI::FailureMessage::simple(table, error);
  });
  app->set_version_flag("--version", "terrace " TERRACE_VERSION);
  app->footer(
      "Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 no daemon reachable, 4 no permission,\n"
      "5 not found, 6 works in part. 'run' returns the command's own code, 127 where the command\n"
      "is not found, and 126 where it cannot be executed. 'terrace VERB --help' explains a verb.");
  add_run(app.get(), &options->run);
  add_views(app.get(), &options->view);
  add_changes(app.get(), &options->change);
  add_records(app.get(), &options->record);
  add_doctor(app.get(), &options->doctor);
  add_plan(app.get(), &options->plan);
  add_import(app.get(), &options->import);
  add_rest(app.get(), options);
  for (CLI::App* verb : app->get_subcommands([](CLI::App*) { return true; }))
    for (CLI::Option* option : verb->get_options([](const CLI::Option* o) { return o->nonpositional(); }))
      if (option->get_items_expected_min() > 0) option->check(has_value());
  return app;
}

std::vector<std::string> split_command(const CLI::App& table, std::vector<std::string>* words) {
  if (words->empty() || (words->front() != "run" && words->front() != "bench")) return {};
  const CLI::App* verb = table.get_subcommand(words->front());
  auto at = words->begin() + 1;
  while (at != words->end() && at->starts_with('-') && *at != "--") {
    const bool value_follows = at->find('=') == std::string::npos && takes_value(*verb, *at);
    at += value_follows && at + 1 != words->end() ? 2 : 1;
  }
  const auto first = at != words->end() && *at == "--" ? at + 1 : at;
  std::vector<std::string> command(first, words->end());
  words->erase(at, words->end());
  return command;
}

}  // namespace terrace::cli
