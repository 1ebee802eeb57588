#include "daemon/planner/machine_json.h"

#include <catch2/catch.hpp>

#include "daemon/planner/schedule_period.h"

namespace terrace::planner {
namespace {

const std::string machine_head = R"({"format":"terrace-machine","version":1,"name":"m",)";
const std::string tiers = R"("tiers":[{"name":"gpu","capacity_bytes":1000},{"name":"dram"}],)";
const std::string links = R"("links":[{"name":"pcie","in_bytes_per_second":2,"out_bytes_per_second":3}],)";
const std::string routes = R"("routes":[{"tier":"dram","links":["pcie"]}])";

std::string machine_error(const std::string& text) { return parse_machine(text).error; }

Machine machine() {
  Result<Machine> parsed = parse_machine(
      machine_head + tiers + links + routes +
      R"(,"codecs":[{"name":"zvc","compress_bytes_per_second":1e10,"decompress_bytes_per_second":2e10,"drops_zeros":true}]})");
  INFO(parsed.error);
  REQUIRE(parsed);
  return *parsed;
}

wire::Trace trace() {
  wire::Trace t{"t", "", {}, {}};
  t.tensors = {{40, 8, {}, false, {}, {}, {}}, {41, 8, {}, false, {}, {}, {}}};
  t.ops = {{"a", 1, {0}, {1}, 0, {}, true}, {"b", 1, {1}, {0}, 0, {}, true}};
  return t;
}

std::string schedule_error(const std::string& entries) {
  return parse_schedule(R"({"format":"terrace-schedule","version":2,"trace":"t","policy":"p","entries":[)" +
                            entries + "]}",
                        trace(), machine())
      .error;
}

}  // namespace

TEST_CASE("A machine is read, its tiers and links found by name") {
  const Machine m = machine();
  CHECK(m.name == "m");
  REQUIRE(m.tiers.size() == 2);
  CHECK(m.tiers[0].capacity_bytes == 1000);
  CHECK(m.tiers[1].capacity_bytes == unlimited_bytes);
  REQUIRE(m.links.size() == 1);
  CHECK((m.links[0].in_bytes_per_second == 2 && m.links[0].out_bytes_per_second == 3));
  REQUIRE(m.routes.size() == 1);
  CHECK(m.routes[0].tier == 1);
  CHECK(m.routes[0].links == std::vector<std::uint32_t>{0});
  REQUIRE(m.codecs.size() == 1);
  CHECK((m.codecs[0].drops_zeros && m.codecs[0].overhead_share == 1 / 32.));
  const Result<Machine> back = parse_machine(machine_json(m));
  REQUIRE(back);
  CHECK(machine_json(*back) == machine_json(m));
}

TEST_CASE("A tier says how fast its processor updates weights, or that it has none") {
  const auto with = [](const std::string& rate) {
    return parse_machine(
        machine_head + R"("tiers":[{"name":"gpu"},{"name":"dram","update_bytes_per_second":)" + rate + "}]}");
  };
  CHECK(with("2e9")->tiers[1].update_bytes_per_second == 2e9);
  CHECK(with("2e9")->tiers[0].update_bytes_per_second == 0);
  CHECK(parse_machine(machine_json(*with("2e9")))->tiers[1].update_bytes_per_second == 2e9);
  CHECK_THAT(with("0").error, Catch::Contains("tiers[1].update_bytes_per_second: must be at least 1"));
  CHECK_THAT(with("-1").error, Catch::Contains("tiers[1].update_bytes_per_second"));
}

TEST_CASE("A tier says how it is read and written in place or that it is not") {
  const Result<Machine> parsed = parse_machine(
      machine_head +
      R"("tiers":[{"name":"dram"},{"name":"pmm","read_bytes_per_second":39,"write_bytes_per_second":13,"read_latency_us":0.5}]})");
  INFO(parsed.error);
  REQUIRE(parsed);
  CHECK_FALSE(parsed->tiers[0].access.in_place());
  REQUIRE(parsed->tiers[1].access.in_place());
  CHECK(parsed->tiers[1].access.read_bytes_per_second == 39);
  CHECK(parsed->tiers[1].access.write_bytes_per_second == 13);
  CHECK(parsed->tiers[1].access.read_latency_us == 0.5);
  CHECK(parsed->tiers[1].access.write_latency_us == 0);
  const Result<Machine> back = parse_machine(machine_json(*parsed));
  REQUIRE(back);
  CHECK(machine_json(*back) == machine_json(*parsed));
  CHECK(back->tiers[1].access.write_bytes_per_second == 13);
  CHECK(machine_error(machine_head + R"("tiers":[{"name":"a","read_bytes_per_second":5}]})") ==
        "tiers[0].write_bytes_per_second: must be at least 1 where the tier can be used in place; leave all "
        "rates "
        "out where not");
  CHECK(machine_error(machine_head + R"("tiers":[{"name":"a","write_latency_us":5}]})") ==
        "tiers[0].read_bytes_per_second: must be at least 1 where the tier can be used in place; leave all "
        "rates out "
        "where not");
}

TEST_CASE("The first tier may be paged, no other one") {
  const Result<Machine> paged = parse_machine(machine_head + R"("tiers":[{"name":"dram","paged":true}]})");
  INFO(paged.error);
  REQUIRE(paged);
  CHECK(paged->tiers[0].paged);
  CHECK(parse_machine(machine_json(*paged))->tiers[0].paged);
  CHECK(machine_error(machine_head + R"("tiers":[{"name":"gpu"},{"name":"dram","paged":true}]})") ==
        "tiers[1].paged: is of the first tier alone; leave it out");
}

TEST_CASE("A tier may lie inside the first one, which it names") {
  const auto with = [](const std::string& second) {
    return parse_machine(machine_head + R"("tiers":[{"name":"gpu"},{"name":"packed","inside":)" + second +
                         "]}");
  };
  const Result<Machine> inside = with(R"("gpu"})");
  INFO(inside.error);
  REQUIRE(inside);
  CHECK((inside->is_inside(1) && !inside->is_inside(0)));
  CHECK(machine_json(*parse_machine(machine_json(*inside))) == machine_json(*inside));
  CHECK(parse_machine(machine_json(*inside))->is_inside(1));
  const std::string wanted = ": must be the name of the first tier, which stands before this one";
  CHECK(with(R"("packed"})").error == "tiers[1].inside" + wanted);
  CHECK(with(R"("dram"})").error == "tiers[1].inside" + wanted);
  CHECK(machine_error(machine_head + R"("tiers":[{"name":"gpu","inside":"gpu"}]})") ==
        "tiers[0].inside" + wanted);
  CHECK(with(R"("gpu"},{"name":"more","inside":"gpu"})").error ==
        "tiers[2].inside: one tier lies inside the first one already");
  CHECK_THAT(with("1}").error, Catch::Contains("tiers[1].inside"));
}

TEST_CASE("A codec that keeps one bit a value has no way back, and any other has one") {
  const auto with_codec = [](const std::string& fields) {
    return parse_machine(machine_head + tiers + R"("codecs":[{"name":"c","compress_bytes_per_second":5)" +
                         fields + "}]}");
  };
  const Result<Machine> bits = with_codec(R"(,"one_bit":true)");
  INFO(bits.error);
  REQUIRE(bits);
  CHECK((bits->codecs[0].one_bit && bits->codecs[0].decompress_bytes_per_second == 0));
  const Result<Machine> back = parse_machine(machine_json(*bits));
  REQUIRE(back);
  CHECK(back->codecs[0].one_bit);
  CHECK(machine_json(*back) == machine_json(*bits));
  CHECK(machine_json(*with_codec(R"(,"decompress_bytes_per_second":5)")).find("one_bit") ==
        std::string::npos);
  CHECK(with_codec("").error == "codecs[0].decompress_bytes_per_second: missing");
  CHECK(with_codec(R"(,"one_bit":false)").error == "codecs[0].decompress_bytes_per_second: missing");
  CHECK_THAT(with_codec(R"(,"one_bit":3)").error, Catch::StartsWith("codecs[0].one_bit"));
  const std::string none = ": a codec that keeps one bit a value has none; leave it out, or `one_bit`";
  for (const std::string key :
       {"decompress_bytes_per_second", "stored_share", "drops_zeros", "overhead_share", "overlaps"})
    CHECK(with_codec(R"(,"one_bit":true,")" + key +
                     "\":" + (key == "overlaps" || key == "drops_zeros" ? "true" : "1"))
              .error == "codecs[0]." + key + none);
}

TEST_CASE("Routes may stand before what they name") {
  CHECK(parse_machine(machine_head + routes + "," + links + R"("tiers":[{"name":"gpu"},{"name":"dram"}]})"));
}

TEST_CASE("A far route joins two tiers beyond the first one, and a schedule stages over it") {
  const auto with_routes = [](const std::string& list) {
    return parse_machine(
        machine_head + links + R"("tiers":[{"name":"gpu"},{"name":"dram"},{"name":"ssd"},{"name":"tape"}],)" +
        R"("routes":[{"tier":"dram","links":["pcie"]},{"tier":"ssd","links":["pcie"]})" + list + "]}");
  };
  const Result<Machine> m = with_routes(R"(,{"from":"dram","tier":"ssd","links":["pcie"]})");
  REQUIRE(m);
  REQUIRE(m->routes.size() == 2);
  REQUIRE(m->far_routes.size() == 1);
  CHECK((m->far_routes[0].from == 1 && m->far_routes[0].tier == 2));
  CHECK(m->far_routes[0].links == std::vector<std::uint32_t>{0});
  const Result<Machine> back = parse_machine(machine_json(*m));
  REQUIRE(back);
  CHECK(machine_json(*back) == machine_json(*m));
  const auto error = [&](const char* route) { return with_routes(std::string(",") + route).error; };
  const std::string ends =
      " has no route to the first tier above, or lies inside it; far routes join tiers that "
      "have one";
  CHECK(error(R"({"from":"gpu","tier":"ssd","links":["pcie"]})") == "routes[2].from: \"gpu\"" + ends);
  CHECK(error(R"({"from":"dram","tier":"tape","links":["pcie"]})") == "routes[2].tier: \"tape\"" + ends);
  CHECK(error(R"({"from":"disk","tier":"ssd","links":["pcie"]})") ==
        "routes[2].from: there is no tier \"disk\"");
  CHECK(error(R"({"from":"ssd","tier":"ssd","links":["pcie"]})") ==
        "routes[2].tier: a route leads from one tier to another one");
  CHECK(error(R"({"from":"dram","tier":"ssd","links":["sas"]})") ==
        "routes[2].links[0]: there is no link \"sas\"");
  CHECK(
      error(
          R"({"from":"dram","tier":"ssd","links":["pcie"]},{"from":"ssd","tier":"dram","links":["pcie"]})") ==
      "routes[3].tier: there is a route between these two already");

  const auto staged = [&](const Machine& machine, int version, const std::string& tier) {
    return parse_schedule(
        R"({"format":"terrace-schedule","version":)" + std::to_string(version) +
            R"(,"trace":"t","policy":"p","entries":[{"at":1,"tensor":40,"action":"out","tier":1},)" +
            R"({"at":1,"tensor":40,"action":"stage","tier":)" + tier + "}]}",
        trace(), machine);
  };
  const Result<wire::Schedule> schedule = staged(*m, 4, "2");
  REQUIRE(schedule);
  CHECK(schedule->entries[1].action == wire::Action::stage);
  CHECK(schedule->entries[1].tier == 2);
  const std::string text = schedule_json(*schedule, trace(), *m);
  CHECK(text.find("\"version\":4") != std::string::npos);
  const Result<wire::Schedule> same = parse_schedule(text, trace(), *m);
  REQUIRE(same);
  CHECK(schedule_json(*same, trace(), *m) == text);
  CHECK(staged(*m, 4, "3").error == "entries[1].tier: no far route of the machine leads to tier 3");
  CHECK(staged(machine(), 4, "1").error == "entries[1].tier: no far route of the machine leads to tier 1");
}

TEST_CASE("A wrong machine is refused with the place") {
  CHECK(machine_error(machine_head + R"("tiers":[]})") == "tiers: at least one is needed");
  CHECK(machine_error(machine_head + R"("tiers":[{"name":"a"},{"name":"a"}]})") ==
        "tiers[1].name: \"a\" occurs twice");
  CHECK(machine_error(machine_head + R"("tiers":[{"name":""}]})") == "tiers[0].name: must not be empty");
  CHECK(machine_error(machine_head + R"("tiers":[{"name":"a","capacity_bytes":-1}]})") ==
        "tiers[0].capacity_bytes: expected a whole number that is not negative");
  CHECK(machine_error(machine_head + tiers +
                      R"("links":[{"name":"l","in_bytes_per_second":0,"out_bytes_per_second":1}]})") ==
        "links[0].in_bytes_per_second: must be at least 1");
  CHECK(machine_error(machine_head + tiers + links + R"("routes":[{"tier":"ssd","links":["pcie"]}]})") ==
        "routes[0].tier: there is no tier \"ssd\"");
  CHECK(machine_error(machine_head + tiers + links + R"("routes":[{"tier":"gpu","links":["pcie"]}]})") ==
        "routes[0].tier: routes without `from` begin at the first tier and lead to another one");
  CHECK(machine_error(machine_head + tiers + links + R"("routes":[{"tier":"dram","links":["nvlink"]}]})") ==
        "routes[0].links[0]: there is no link \"nvlink\"");
  CHECK(machine_error(machine_head + tiers + links +
                      R"("routes":[{"tier":"dram","links":["pcie","pcie"]}]})") ==
        "routes[0].links[1]: the link is on this route already");
  CHECK(machine_error(machine_head + tiers + links + R"("routes":[{"tier":"dram","links":[]}]})") ==
        "routes[0].links: a route needs at least one link");
  CHECK(machine_error(machine_head + tiers + links +
                      R"("routes":[{"tier":"dram","links":["pcie"]},{"tier":"dram","links":["pcie"]}]})") ==
        "routes[1].tier: \"dram\" has a route already");
  CHECK(machine_error(R"({"format":"terrace-trace","version":1})").find("this is no terrace-machine") == 0);
}

TEST_CASE("A schedule names tensors by id and reads back the same") {
  const wire::Schedule s{"t",
                         "p",
                         {{0, 0, wire::Action::out, 1, 1},
                          {1, 0, wire::Action::in, 1, 0},
                          {2, 1, wire::Action::drop, 0, 0},
                          {2, 1, wire::Action::redo, 0, 0},
                          {2, 1, wire::Action::wait, 0, 0}}};
  const std::string text = schedule_json(s, trace(), machine());
  CHECK(text.find(R"("tensor":40)") != std::string::npos);
  const Result<wire::Schedule> back = parse_schedule(text, trace(), machine());
  INFO(back.error);
  REQUIRE(back);
  CHECK(back->entries.size() == 5);
  CHECK(back->entries[4].action == wire::Action::wait);
  CHECK(schedule_json(*back, trace(), machine()) == text);
}

TEST_CASE("A schedule says its period and objects and what was predicted of it") {
  wire::Schedule s{"t", "p", {{1, 1, wire::Action::out, 1, 1, 3}, {2, 1, wire::Action::in, 1, 0, 4}}};
  s.in_order = wire::Order::deadline;
  s.predicted = {12.25, 1, 2, 3, {1000, 8}};
  wire::Trace lasting = trace();
  lasting.tensors[1].persistent = true;
  const std::string text = schedule_json(s, lasting, machine());
  CHECK(text.find(R"("version":2)") != std::string::npos);
  CHECK(text.find(R"("period":{"ordinals":2,"hash":")") != std::string::npos);
  CHECK(text.find(R"("objects":[
{"tensor":41,"bytes":8,"persistent":true}])") != std::string::npos);
  CHECK(text.find(R"({"at":1,"by":3,"tensor":41,"action":"out","tier":1,"codec":"zvc"})") !=
        std::string::npos);
  const Result<wire::Schedule> back = parse_schedule(text, lasting, machine());
  INFO(back.error);
  REQUIRE(back);
  CHECK((back->out_order == wire::Order::asked && back->in_order == wire::Order::deadline));
  CHECK((back->predicted.step_us == 12.25 && back->predicted.fetch_us == 2 && back->predicted.room_us == 3));
  CHECK(back->predicted.tier_peak_bytes == std::vector<std::uint64_t>{1000, 8});
  CHECK((back->period == 2 && back->objects.size() == 2 && back->objects[0].birth == 0));
  CHECK(schedule_json(*back, lasting, machine()) == text);
}

TEST_CASE("A schedule says what of the first tier it leaves free") {
  Machine small = machine();
  small.tiers[0].capacity_bytes = 1000;
  wire::Schedule s{"t", "p", {}};
  CHECK(schedule_json(s, trace(), small).find("spare_bytes") == std::string::npos);
  s.spare_bytes = 999;
  const Result<wire::Schedule> back = parse_schedule(schedule_json(s, trace(), small), trace(), small);
  INFO(back.error);
  REQUIRE(back);
  CHECK(back->spare_bytes == 999);
  s.spare_bytes = 1000;
  CHECK_THAT(parse_schedule(schedule_json(s, trace(), small), trace(), small).error,
             Catch::Contains("spare_bytes: the machine's first tier has no more"));
  CHECK_THAT(parse_schedule(R"({"format":"terrace-schedule","version":2,"trace":"t","spare_bytes":-1})",
                            trace(), small)
                 .error,
             Catch::Contains("spare_bytes: expected a whole number"));
}

TEST_CASE("What a schedule leaves out of its deadlines is the next use") {
  wire::Trace t = trace();
  t.tensors[0].persistent = true;  // used at 0 and 1
  t.ops[1].outputs.clear();
  const auto by = [&t](std::uint32_t at, std::uint32_t object) {
    wire::Schedule s{"t", "p", {{at, object, wire::Action::out, 1, 0}}};
    give_deadlines(t, &s);
    return s.entries[0].by;
  };
  CHECK(by(0, 0) == 0);
  CHECK(by(1, 0) == 2 + 0);  // in the next period
  CHECK(by(2, 0) == 2 + 0);
  CHECK(by(0, 1) == 0);
  CHECK(by(1, 1) == 1);
  CHECK(by(2, 1) == 2 + 2);  // never: when the entry comes again
}

TEST_CASE("A schedule names the variants of operations, in version 3") {
  wire::Trace t = trace();
  t.ops[0].variants = {{"small", 2, 0}, {"fast", 0.5, 9}};
  const auto read = [&](const std::string& variants) {
    return parse_schedule(
        R"({"format":"terrace-schedule","version":3,"trace":"t","policy":"p","entries":[],"variants":[)" +
            variants + "]}",
        t, machine());
  };
  const auto fast = read(R"({"op":0,"variant":"fast"})");
  INFO(fast.error);
  REQUIRE(fast);
  REQUIRE(fast->variants.size() == 1);
  CHECK((fast->variants[0].op == 0 && fast->variants[0].variant == 2));
  const std::string text = schedule_json(*fast, t, machine());
  CHECK(text.find("\"version\":3") != std::string::npos);
  const auto back = parse_schedule(text, t, machine());
  REQUIRE(back);
  CHECK(schedule_json(*back, t, machine()) == text);
  // Without variants nothing has changed, and readers of version 2 need not know of them.
  CHECK(schedule_json(*read(""), t, machine()).find("\"version\":2") != std::string::npos);
  CHECK(read(R"({"op":0,"variant":"slow"})").error ==
        "variants[0].variant: operation 0 of the trace has no variant \"slow\"");
  CHECK_THAT(read(R"({"op":2,"variant":"fast"})").error, Catch::Contains("variants[0].op"));
  CHECK(read(R"({"op":1,"variant":"fast"})").error ==
        "variants[0].variant: operation 1 of the trace has no variant \"fast\"");
  CHECK(read(R"({"op":0,"variant":"fast"},{"op":0,"variant":"small"})").error ==
        "variants[1].op: not after the one above it; each operation stands once, in order");
}

TEST_CASE("A schedule of another period or version is refused") {
  const auto error = [](const std::string& fields) {
    return parse_schedule(R"({"format":"terrace-schedule",)" + fields + R"(,"entries":[]})", trace(),
                          machine())
        .error;
  };
  CHECK(error(R"("version":1)") ==
        "version 1 of terrace-schedule is not known here, only versions 2 to 4 are; make the plan again with "
        "`terrace plan`");
  CHECK(error(R"("version":5)") ==
        "version 5 of terrace-schedule is not known here, only versions 2 to 4 are");
  CHECK(error(R"("version":2,"clock":"saves")") == "clock: a trace has the clock operations, not \"saves\"");
  CHECK(error(R"("version":2,"period":{"ordinals":3})") ==
        "period.ordinals: it has 3, the trace has 2 operations");
  CHECK(
      error(R"("version":2,"period":{"ordinals":2,"hash":"0000000000000000"})") ==
      "period.hash: this schedule was made for another step of this name; make the plan again with `terrace "
      "plan`");
  CHECK(error(R"("version":2,"order":{"in":"lifo"})") == "order.in: \"lifo\" is neither asked nor deadline");
  CHECK(error(R"("version":2,"objects":[{"tensor":40,"bytes":9,"birth":0}])") ==
        "objects[0].bytes: in the trace it has 8");
  CHECK(error(R"("version":2,"objects":[{"tensor":41,"bytes":8,"birth":1}])") ==
        "objects[0].birth: in the trace it is 0");
  CHECK(error(R"("version":2,"objects":[{"tensor":41,"bytes":8,"persistent":true}])") ==
        "objects[0].persistent: in the trace it is the other way round");
  CHECK(error(R"("version":2,"predicted":{"step_us":-1})").find("predicted.step_us") == 0);
  CHECK(error(R"("version":2,"predicted":{"step_us":1,"tier_peak_bytes":[1,2,3]})") ==
        "predicted.tier_peak_bytes: more than the machine has tiers");
}

TEST_CASE("A wrong schedule is refused with the place") {
  CHECK(schedule_error(R"({"at":3,"tensor":40,"action":"drop"})") ==
        "entries[0].at: 3 is over the limit of 2");
  CHECK(schedule_error(R"({"at":1,"tensor":40,"action":"drop"},{"at":0,"tensor":40,"action":"drop"})") ==
        "entries[1].at: before the entry above it; entries are sorted by it");
  CHECK(schedule_error(R"({"at":0,"tensor":0,"action":"drop"})") ==
        "entries[0].tensor: there is no tensor 0 in the trace");
  CHECK(schedule_error(R"({"at":0,"tensor":40,"action":"burn"})") ==
        "entries[0].action: \"burn\" is none of out, in, drop, redo, wait, stage");
  CHECK(schedule_error(R"({"at":0,"tensor":40,"action":"out"})") == "entries[0].tier: missing");
  CHECK(schedule_error(R"({"at":1,"by":0,"tensor":40,"action":"drop"})") ==
        "entries[0].by: the deadline is before `at`");
  CHECK(schedule_error(R"({"at":1,"by":4,"tensor":40,"action":"drop"})") ==
        "entries[0].by: 4 is over the limit of 3");
  CHECK(schedule_error(R"({"at":1,"tensor":40,"action":"drop","begin":9})") ==
        "entries[0].begin: 9 is over the limit of 8");
  CHECK(schedule_error(R"({"at":1,"tensor":40,"action":"drop","begin":6,"bytes":3})") ==
        "entries[0].bytes: 3 is over the limit of 2");
  CHECK(schedule_error(R"({"at":0,"tensor":40,"action":"out","tier":0})") ==
        "entries[0].tier: no route of the machine leads to tier 0");
  CHECK(schedule_error(R"({"at":0,"tensor":40,"action":"out","tier":9})") ==
        "entries[0].tier: 9 is over the limit of 1");
  CHECK(schedule_error(R"({"at":0,"tensor":40,"action":"out","tier":1,"codec":"zip"})") ==
        "entries[0].codec: the machine has no codec \"zip\"");
  CHECK(parse_schedule(R"({"format":"terrace-schedule","version":2,"trace":"u","entries":[]})", trace(),
                       machine())
            .error == "trace: this schedule was made for \"u\", not for \"t\"");
}

}  // namespace terrace::planner
