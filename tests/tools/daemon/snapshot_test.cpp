#include "tools/cli/daemon/snapshot.h"
#include "tools/cli/daemon/planned_step.h"
#include "tools/cli/terminal/column_texts.h"

#include <catch2/catch.hpp>

using namespace terrace::cli;
using nlohmann::json;

namespace {

json session(int pid, std::uint64_t live, const char* pager) {
  return {{"id", pid},
          {"pid", pid},
          {"lost_events", 2},
          {"pager", pager},
          {"statistics", {{"heap_live_bytes", live}}}};
}

json answer() {
  return {{"socket", "/s"},
          {"private", true},
          {"uptime_seconds", 1.5},
          {"tiers",
           {{{"tier", "dram"}, {"capacity_bytes", 100}, {"promised_bytes", 60}, {"used_bytes", 50}},
            {{"tier", "nvme"}, {"capacity_bytes", 1000}, {"used_bytes", 300}, {"directory", "/var/tmp"}}}},
          {"jobs",
           {{{"job", "train"},
             {"uid", 7},
             {"budget_bytes", 60},
             {"sessions", {session(1, 10, "inactive"), session(2, 500, "active")}},
             {"totals",
              {{"faults", 5}, {"stall_ns", 2500000000}, {"written_bytes", 900}, {"restored_bytes", 80}}}}}}};
}

}  // namespace

TEST_CASE("AJobIsOneRowOfItsTotals") {
  const Rows rows = job_rows(answer());
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["job"] == "train");
  CHECK(rows[0]["processes"] == 2);
  CHECK(rows[0]["faults"] == 5);
  CHECK(rows[0]["lost_events"] == 4);
}

TEST_CASE("DurationsBecomeSeconds") {
  const json row = job_rows(answer())[0];
  CHECK(row["stall_seconds"] == 2.5);
  CHECK_FALSE(row.contains("stall_ns"));
}

TEST_CASE("TheLargestProcessSpeaksForTheJob") { CHECK(job_rows(answer())[0]["pager"] == "active"); }

TEST_CASE("AnEngineIsOfAProcessAndDoesNotSpeakForTheJob") {
  json status = answer();
  json& sessions = status["jobs"][0]["sessions"];
  CHECK_FALSE(job_rows(status)[0].contains("engines"));
  for (const char* device : {"cuda:0", "cuda:1", "cuda:0"}) {
    json engine = session(2, 9000, "");
    engine.erase("pager");
    engine["device"] = device;
    engine["statistics"]["resident_bytes"] = 30;
    sessions.push_back(engine);
  }
  const json row = job_rows(status)[0];
  CHECK(row["processes"] == 2);
  CHECK(row["pager"] == "active");
  CHECK(row["engines"] == 3);
  CHECK(row["devices"] == "cuda:0, cuda:1");
  CHECK(row["offload_bytes"] == 90);
}

TEST_CASE("APlanAndItsOutcomeAreOfTheProcessThatSpeaks") {
  json status = answer();
  json& speaking = status["jobs"][0]["sessions"][1];
  CHECK(plan_line(job_rows(status)[0]).empty());
  speaking["policy"] = "g10";
  speaking["plan"] = {{"entries", 240}, {"predicted_step_seconds", 1.02}};
  json row = job_rows(status)[0];
  CHECK(row["policy"] == "g10");
  CHECK(row["plan_entries"] == 240);
  CHECK(plan_line(row) == "plan    train: predicted 1.02 s a step (g10, 240 moves)\n");
  speaking["plan"]["measured_step_seconds"] = 1.05;
  row = job_rows(status)[0];
  CHECK(plan_line(row) == "plan    train: predicted 1.02 s, measured 1.05 s a step (g10, 240 moves)\n");
  speaking.erase("plan");
  speaking["plan_refusal"] = "nothing has to move";
  row = job_rows(status)[0];
  CHECK(row["plan_refusal"] == "nothing has to move");
  CHECK(plan_line(row).empty());
}

TEST_CASE("BudgetOfZeroIsUnknown") {
  json status = answer();
  status["jobs"][0]["budget_bytes"] = 0;
  CHECK_FALSE(job_rows(status)[0].contains("budget_bytes"));
}

TEST_CASE("TrafficOfATierIsThatOfItsJobs") {
  const Rows rows = tier_rows(answer());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["written_bytes"] == 80);
  CHECK(rows[1]["written_bytes"] == 900);
}

TEST_CASE("CompressedDramIsARowWhereJobsKeepSomething") {
  json status = answer();
  json& totals = status["jobs"][0]["totals"];
  totals["kept_bytes"] = 70;
  totals["fetched_bytes"] = 30;
  totals["compressed_bytes"] = 20;
  const Rows rows = tier_rows(status);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1]["tier"] == "compressed");
  CHECK(rows[1]["used_bytes"] == 20);
  CHECK(rows[1]["written_bytes"] == 70);
  CHECK(rows[1]["read_bytes"] == 30);
  CHECK(rows[1]["socket"] == "/s");
  CHECK(rows[2]["tier"] == "nvme");
}

TEST_CASE("NvmIsARowOfTheServicesOrWhereJobsHaveTheirOwn") {
  json status = answer();
  json& totals = status["jobs"][0]["totals"];
  totals["nvm_bytes"] = 50;
  totals["nvm_written_bytes"] = 70;
  totals["nvm_read_bytes"] = 30;
  const Rows own = tier_rows(status);
  REQUIRE(own.size() == 3);
  CHECK(own[1]["tier"] == "nvm");
  CHECK(own[1]["used_bytes"] == 50);
  CHECK(own[1]["written_bytes"] == 70);
  CHECK(own[1]["read_bytes"] == 30);
  CHECK(own[2]["tier"] == "nvme");
  CHECK(own[2]["written_bytes"] == 900);
  status["tiers"].insert(status["tiers"].begin() + 1,
                         json{{"tier", "nvm"}, {"capacity_bytes", 500}, {"used_bytes", 60}});
  const Rows rows = tier_rows(status);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1]["used_bytes"] == 60);
  CHECK(rows[1]["written_bytes"] == 70);
  const json row = status_row(status);
  CHECK(row["nvm_capacity_bytes"] == 500);
  CHECK(row["pool_capacity_bytes"] == answer()["tiers"][1]["capacity_bytes"]);
}

TEST_CASE("SpeedsOfTiersAreBytesByTheTimeInTransferOverAllJobs") {
  json status = answer();
  json& first = status["jobs"][0]["totals"];
  first["recent_drive_read_bytes"] = 6'000'000;
  first["recent_drive_read_ns"] = 2'000'000;
  first["recent_nvm_write_bytes"] = 500;
  first["recent_nvm_write_ns"] = 1'000'000'000;
  first["nvm_written_bytes"] = 70;
  first["kept_bytes"] = 70;
  first["recent_compressed_read_bytes"] = 900;
  first["recent_compressed_read_ns"] = 1'000'000'000;
  status["jobs"].push_back(status["jobs"][0]);
  json& second = status["jobs"][1]["totals"];
  second["recent_drive_read_bytes"] = 1'000'000;
  second["recent_drive_read_ns"] = 8'000'000;
  const Rows rows = tier_rows(status);
  REQUIRE(rows.size() == 4);  // dram, compressed, nvm, nvme
  for (const char* name : {"measured_read_bytes_per_second", "measured_write_bytes_per_second"})
    CHECK_FALSE(rows[0].contains(name));
  CHECK(rows[1]["measured_read_bytes_per_second"] == 900);
  CHECK(rows[2]["measured_write_bytes_per_second"] == 500);
  CHECK_FALSE(rows[2].contains("measured_read_bytes_per_second"));
  CHECK(rows[3]["measured_read_bytes_per_second"] == 700'000'000);  // 7 MB in 10 ms
  CHECK_FALSE(rows[3].contains("measured_write_bytes_per_second"));
}

TEST_CASE("WhatIsWrittenInADayIsOfThePoolAndOfItsJobs") {
  json status = answer();
  status["tiers"][1].update(
      {{"written_today_bytes", 30}, {"writes_left_bytes", 70}, {"writes_per_day_bytes", 100}});
  status["jobs"][0].update({{"written_today_bytes", 20}, {"writes_left_bytes", 35}});
  CHECK(tier_rows(status)[1]["writes_left_bytes"] == 70);
  CHECK_FALSE(tier_rows(status)[0].contains("writes_left_bytes"));
  CHECK(job_rows(status)[0]["written_today_bytes"] == 20);
  CHECK(job_rows(status)[0]["writes_left_bytes"] == 35);
  CHECK(status_row(status)["pool_written_today_bytes"] == 30);
  CHECK(status_row(status)["pool_writes_per_day_bytes"] == 100);
}

TEST_CASE("StatusSumsWhatTheDaemonHas") {
  const json row = status_row(answer());
  CHECK(row["jobs"] == 1);
  CHECK(row["processes"] == 2);
  CHECK(row["dram_promised_bytes"] == 60);
  CHECK(row["pool_directory"] == "/var/tmp");
  CHECK(row["faults"].is_number_integer());
}

TEST_CASE("RowsOfDifferentUsersAndDaemonsAreToldApart") {
  const json a{{"socket", "/s"}, {"uid", 1}, {"job", "x"}};
  json b = a;
  b["uid"] = 2;
  json c = a;
  c["socket"] = "/t";
  CHECK(job_key(a) != job_key(b));
  CHECK(job_key(a) != job_key(c));
}

TEST_CASE("AnswersOfAnotherShapeAreEmptyNotFatal") {
  const json status =
      GENERATE(json::object(), json({{"jobs", 5}, {"tiers", "x"}}), json({{"jobs", {1, "a", nullptr}}}),
               json({{"jobs", {{{"totals", 3}, {"sessions", {4}}}}}}));
  CHECK_NOTHROW(job_rows(status));
  CHECK_NOTHROW(tier_rows(status));
  CHECK_NOTHROW(status_row(status));
}

TEST_CASE("EveryColumnIsExplained") {
  for (const auto& columns : {job_columns(), tier_columns(), status_columns()})
    for (const Column& column : columns) {
      INFO(column.name);
      CHECK_FALSE(about_column(column.name, column.heading).empty());
      CHECK(about_column(column.name, column.heading).size() < 64);
      CHECK(list_columns(columns).find(about_column(column.name, column.heading)) != std::string::npos);
    }
  CHECK(about_column("no such column", "").empty());
}

TEST_CASE("BytesOfATierAreExplainedForTiersAlone") {
  CHECK(list_columns(tier_columns()).find("bytes into the tier: DRAM restored") != std::string::npos);
  for (const auto columns : {job_columns(), status_columns()}) {
    CHECK(list_columns(columns).find("restored,") == std::string::npos);
    CHECK(list_columns(columns).find("to the pool, after compression\n") != std::string::npos);
  }
}

TEST_CASE("HeapsOnGpusAreTheJobsAndCountNoProcess") {
  json status = answer();
  json& job = status["jobs"][0];
  CHECK_FALSE(job_rows(status)[0].contains("gpus"));
  job["gpu_held_bytes"] = 70;
  job["gpu_granted_bytes"] = 80;
  job["gpu_budget_bytes"] = 90;
  job["gpu_limit_bytes"] = 95;
  job["pool_promised_bytes"] = 400;
  job["writes_guarantee_bytes"] = 11;
  job["gpu_heaps"] = {{{"pid", 9}, {"gpu", "H200 0000:3b:00.0"}, {"evicted_bytes", 3}},
                      {{"pid", 9}, {"gpu", "H200 0000:5e:00.0"}, {"evicted_bytes", 4}},
                      {{"pid", 1}, {"gpu", "H200 0000:3b:00.0"}}};
  const json row = job_rows(status)[0];
  CHECK(row["gpus"] == "H200 0000:3b:00.0, H200 0000:5e:00.0");
  CHECK(row["gpu_held_bytes"] == 70);
  CHECK(row["gpu_granted_bytes"] == 80);
  CHECK(row["gpu_budget_bytes"] == 90);
  CHECK(row["gpu_limit_bytes"] == 95);
  CHECK(row["gpu_evicted_bytes"] == 7);
  CHECK(row["pool_promised_bytes"] == 400);
  CHECK(row["writes_guarantee_bytes"] == 11);
  CHECK(row["processes"] == 2);
}

TEST_CASE("EachGpuIsATierAndNoPool") {
  json status = answer();
  for (const char* device : {"one", "two"})
    status["tiers"].push_back({{"tier", "gpu"},
                               {"device", device},
                               {"capacity_bytes", 500},
                               {"granted_bytes", 400},
                               {"used_bytes", 300}});
  const Rows rows = tier_rows(status);
  REQUIRE(rows.size() == 4);
  CHECK(rows[2]["device"] == "one");
  CHECK_FALSE(rows[2].contains("written_bytes"));  // what moves there is not counted
  CHECK(tier_key(rows[2]) != tier_key(rows[3]));
  const json row = status_row(status);
  CHECK(row["pool_capacity_bytes"] == 1000);
  CHECK(row["gpu_capacity_bytes"] == 1000);
  CHECK(row["gpu_used_bytes"] == 600);
  CHECK(row["gpus"].size() == 2);
  CHECK_FALSE(status_row(answer()).contains("gpus"));
}
