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
  CLI::App* run = app->add_subcommand("run", "Run a command with its large allocations tiered");
  // Only for --help: split_command() has taken the command away before the table sees the words.
  run->add_option("command", o->command,
                  "The command and its own options; put -- before it if it begins with -");
  for (const RunEntry& entry : run_entries()) {
    CLI::Option* option = run->add_option(entry.name, o->*entry.value, entry.about)->type_name(entry.type);
    option->group(entry.group);
    if (!entry.choices.empty()) option->check(one_of(entry.choices));
    if (entry.variable != nullptr) option->envname(entry.variable);
  }
  run->add_flag("--private", o->is_private,
                "Bring a daemon of the job's own, beside the machine's service if there is one")
      ->group(group_daemon);
  run->add_flag("--gpu-selftest", o->gpu_selftest,
                "With --gpu: say which parts of the program allocate GPU memory through Terrace "
                "(TERRACE_GPU_SELFTEST=1)")
      ->group(group_gpu);
  run->add_flag("--summary", o->summary, "Say at the end, on standard error, what was kept, moved and saved")
      ->group(group_reports);
  run->add_flag("--disable", o->disable, "Load the library but change nothing (TERRACE_DISABLE=1)")
      ->group(group_reports);
}

CLI::App* add_view(CLI::App* app, const char* name, const char* about, ViewOptions* o) {
  CLI::App* view = app->add_subcommand(name, about);
  view->add_option("--socket", o->socket,
                   "Ask the daemon at this socket (default: every one of yours that answers)")
      ->type_name("PATH")
      ->envname("TERRACE_SOCKET");
  view->add_flag("--bytes", o->bytes, "Plain numbers of bytes instead of KiB, MiB, GiB");
  return view;
}

void add_table_view(CLI::App* app, const char* name, const char* about, ViewOptions* o) {
  CLI::App* view = add_view(app, name, about, o);
  view->add_flag("--json", o->json, "JSON; with --watch one object a line");
  view->add_flag("--no-headings", o->no_headings, "Leave the headings out");
  view->add_option("-o,--columns", o->columns,
                   "+COL adds a column, COL,COL selects, by name or heading; '-o help' lists them")
      ->type_name("COL")
      ->delimiter(',')
      ->allow_extra_args(false);
  view->add_option("--watch", o->watch,
                   "Again every INTERVAL seconds (default 1), COUNT times; rates after the first")
      ->type_name("[INTERVAL [COUNT]]")
      ->expected(0, 2)
      ->check(above_zero())
      ->each([o](const std::string&) { o->watch_given = true; });
}

void add_views(CLI::App* app, ViewOptions* o) {
  add_table_view(app, "status", "The daemon, its budget and its totals", o);
  add_table_view(app, "jobs", "One row for each job", o);
  add_table_view(app, "tiers", "One row for each tier: what it may hold and holds, what goes in and out", o);
  add_table_view(app, "events", "The latest evictions, restores, faults and mishaps", o);
  CLI::App* events = app->get_subcommand("events");
  events
      ->add_option("-n,--last", o->last,
                   "How many events to show (default 20); with --watch at first, then all that follow")
      ->type_name("N")
      ->check(CLI::Range(1, most_events));
  events->get_option("--watch")->description(
      "Again every INTERVAL seconds (default 1), COUNT times: what has happened since");
  add_view(app, "top", "Watch jobs on the whole screen; q quits", o);
}

CLI::App* add_change(CLI::App* app, const char* name, const char* about, ChangeOptions* o) {
  CLI::App* change = app->add_subcommand(name, about);
  change->add_option("job", o->job, "The job's name, as 'terrace jobs' has it");
  change->add_option("--uid", o->uid, "Of the user with this number: root's way to another's job")
      ->type_name("UID")
      ->check(whole_number());
  change
      ->add_option("--socket", o->socket,
                   "Ask the daemon at this socket (default: every one of yours that answers)")
      ->type_name("PATH")
      ->envname("TERRACE_SOCKET");
  change->add_flag("--bytes", o->bytes, "Plain numbers of bytes instead of KiB, MiB, GiB");
  change->add_flag("--json", o->json, "JSON");
  return change;
}

void add_changes(CLI::App* app, ChangeOptions* o) {
  const auto of_one_job = [&](const char* name, const char* about) {
    CLI::App* verb = add_change(app, name, about, o);
    verb->get_option("job")->required();
    return verb;
  };
  CLI::App* set = of_one_job("set", "Give a running job another budget, or another part of what is lent");
  // One of them at a time.
  std::vector<CLI::Option*> before;
  const auto add = [&](const char* name, std::string& value, const char* about, const char* type) {
    CLI::Option* option = set->add_option(name, value, about)->type_name(type);
    for (CLI::Option* other : before) option->excludes(other);
    before.push_back(option);
  };
  add("--dram", o->dram, "Keep at most this much of its data in DRAM from now on", "SIZE|PCT%");
  add("--weight", o->weight, "Lend it so many times what a job of yours with weight 1 gets: 1 to 1000", "N");
  add("--dram-limit", o->dram_limit,
      "Never keep more than this of it in DRAM, promised or lent; none takes a limit away", "SIZE|PCT%|none");
  add("--pool-limit", o->pool_limit, "Promise it no more pool space than this; none takes the limit away",
      "SIZE|none");
  add("--writes-limit", o->writes_limit,
      "Let it write no more than this to the pool's drive in a day; none takes the limit away", "SIZE|none");
  add("--gpu-limit", o->gpu_limit,
      "Grant it no more than this of each GPU's memory; none takes the limit away", "SIZE|none");
  add_change(app, "trim",
             "Give memory that jobs keep for reuse back to the kernel; without JOB of all of yours", o);
  of_one_job("pause", "Move a job's large memory to its pool, and stop the job");
  of_one_job("resume", "Let a paused job go on, with its budget as before");
}

void add_records(CLI::App* app, RecordOptions* o) {
  const auto of_a_recording = [&](const char* name, const char* about) {
    CLI::App* verb = add_change(app, name, about, o);
    verb->add_option("--seconds", o->seconds, "Record for so long (default 10); Ctrl-C ends it before")
        ->type_name("SECONDS")
        ->check(above_zero());
    return verb;
  };
  CLI::App* timeline = of_a_recording("timeline", "Record what a running job's memory does, to be looked at");
  timeline->remove_option(timeline->get_option("--bytes"));
  timeline->remove_option(timeline->get_option("--json"));
  timeline->get_option("job")->required();
  timeline->add_option("--html", o->html, "Write one page for a browser, which needs nothing else")
      ->type_name("FILE");
  timeline->add_option("--perfetto", o->perfetto, "Write a trace for ui.perfetto.dev")->type_name("FILE");
  timeline
      ->add_option("--trace", o->trace,
                   "Write one step of it for 'terrace plan', packed when the name ends in .gz")
      ->type_name("FILE");
  CLI::App* lifetimes = of_a_recording(
      "lifetimes", "Which allocations of a running job are idle, where, and who waits for them");
  lifetimes->add_option("-n,--last", o->last, "How many allocations to show (default 20)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  lifetimes
      ->add_option("-o,--columns", o->columns,
                   "+COL adds a column, COL,COL selects, by name or heading; '-o help' lists them")
      ->type_name("COL")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_doctor(CLI::App* app, DoctorOptions* o) {
  CLI::App* doctor =
      app->add_subcommand("doctor", "What this machine can do, and how to get what is missing");
  doctor
      ->add_option("--pool", o->pool,
                   "The pool directory to examine, or several with commas (default /var/tmp)")
      ->type_name("DIR[,DIR...]")
      ->envname("TERRACE_POOL_DIR");
  doctor->add_flag("--json", o->json, "JSON");
  doctor->add_flag("--check", o->check, "Exit with 6 when something that 'terrace run' wants is missing");
  doctor->add_flag("--quick", o->quick, "Leave the measurements of speed out");
}

void add_plan_outputs(CLI::App* plan, PlanOptions* o) {
  plan->add_flag("--json", o->json, "JSON");
  plan->add_flag("--bytes", o->bytes, "Plain numbers of bytes instead of KiB, MiB, GiB");
  plan->add_option("--plot", o->plot, "Draw the best plan: PREFIX-placement and PREFIX-memory, .svg and .png")
      ->type_name("PREFIX");
  plan->add_option("--out", o->out,
                   "Write the best schedule, without a machine the best placement, or the --point")
      ->type_name("FILE");
  plan->add_option("--perfetto", o->perfetto, "Write the best step's timeline, for ui.perfetto.dev")
      ->type_name("FILE");
}

void add_plan_job(CLI::App* plan, RecordOptions* o) {
  CLI::Option* job =
      plan->add_option("--job", o->job, "The step of a job that runs, recorded now, instead of a trace")
          ->type_name("JOB");
  plan->get_option("trace")->excludes(job);
  plan->add_option("--seconds", o->seconds, "Record it for so long (default 10); Ctrl-C ends it before")
      ->type_name("SECONDS")
      ->check(above_zero())
      ->needs(job);
  plan->add_option("--uid", o->uid, "The job of the user with this number")
      ->type_name("UID")
      ->check(whole_number())
      ->needs(job);
  plan->add_option("--socket", o->socket,
                   "Ask the daemon at this socket for it (default: every one of yours that answers)")
      ->type_name("PATH")
      ->envname("TERRACE_SOCKET");
}

void add_plan(CLI::App* app, PlanOptions* o) {
  CLI::App* plan =
      app->add_subcommand("plan", "Where the buffers of a training step lie, and what moves when");
  plan->add_option("trace", o->trace,
                   "The step: a trace, or anything 'terrace import' reads; - for standard input");
  add_plan_job(plan, &o->record);
  plan->add_option("--machine", o->machine,
                   "Tiers and links: a file, or a machine that is built in (--list); with --job by default "
                   "DRAM and the pool as measured")
      ->type_name("FILE|NAME");
  plan->add_option("--policy", o->policies, "Policies, or all (the default)")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  plan->add_option("--order", o->order, "Order of the operations (default recorded)")
      ->type_name("ORDER")
      ->check(CLI::IsMember(order_names()));
  plan->add_option("--capacity", o->capacity,
                   "Fit into this much memory: searches end there, a machine's first tier has it")
      ->type_name("SIZE");
  plan->add_option("--time", o->seconds, "Seconds for each search (default 10; 0: no limit)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  plan->add_option("--seed", o->seed, "For searches that draw lots (default 0)")
      ->type_name("N")
      ->check(whole_number());
  plan->add_flag("--budget-curve", o->budget_curve,
                 "The smallest memory of the first tier that works, and the step's time with ten budgets");
  plan->add_option("--point", o->point,
                   "Of the curve: predict this budget, too, or this part of what lives at once, and write it "
                   "to --out for 'terrace run --plan'")
      ->type_name("SIZE|PCT%")
      ->needs("--budget-curve");
  add_plan_outputs(plan, o);
  plan->add_flag("--list", o->list,
                 "List the policies with their sources, and the machines that are built in");
  plan->footer(
      "With a machine, BOUND beside each SLOWDOWN is the least that any schedule can have, by a\nlinear "
      "programme over what rests between operations, the first tier's room and the links.");
}

void add_import(CLI::App* app, ImportOptions* o) {
  CLI::App* import_app =
      app->add_subcommand("import", "Turn another program's record of a step into a trace");
  import_app->add_option("file", o->file, "The record; - for standard input")->required();
  import_app->add_option("--format", o->format, "What it is, where that cannot be recognised")
      ->type_name("NAME");
  import_app
      ->add_option("--out", o->out,
                   "Write the trace, packed when the name ends in .gz; - for standard output")
      ->type_name("FILE");
}

void add_rest(CLI::App* app, Options* o) {
  app->add_subcommand("bench", "Measure against a baseline; alone: list the benchmarks")
      ->add_option("name", o->bench.words, "The benchmark and its own options");
  app->add_subcommand("version", "The version")->add_flag("--json", o->version_json, "JSON");
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
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 daemon not reachable, 4 permission, 5 not found,\n"
      "6 degraded; 'run' returns the command's own, 127 without one, 126 when it cannot be executed.\n"
      "'terrace VERB --help' says more.");
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
