// Machine files are written by hand, so tiers and links are named in words there and their names are unique.
#include "daemon/planner/machine_json.h"

#include <algorithm>
#include <utility>

#include "daemon/planner/json_line.h"
#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_limits.h"

namespace terrace::planner {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;

constexpr std::size_t most_parts = 64;  // tiers, links, routes, codecs
constexpr double most_bandwidth = 1e18;
constexpr double most_latency_us = 1e9;

class MachineReader {
 public:
  Result<Machine> read(std::string_view text);

 private:
  std::string element(const std::string& key, std::size_t index, const json& value);
  std::string field(const std::string& key, const json& value);
  bool inside(JsonFields* fields);
  void tier(JsonFields* fields);
  void link(JsonFields* fields);
  void route(JsonFields* fields);
  void codec(JsonFields* fields);
  void far_route(JsonFields* fields);
  std::uint32_t far_end(JsonFields* fields, const char* key);
  std::vector<std::uint32_t> route_links(JsonFields* fields);
  template <class Part>
  std::string unique_name(JsonFields* fields, const std::vector<Part>& others);

  FormatCheck format_{"terrace-machine"};
  Machine machine_;
  std::vector<json> routes_;  // read when tiers and links are known
};

template <class Part>
std::size_t named(const std::vector<Part>& parts, const std::string& name) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
  return static_cast<std::size_t>(found - parts.begin());
}

template <class Part>
std::string MachineReader::unique_name(JsonFields* fields, const std::vector<Part>& others) {
  std::string name = fields->text("name", most_text_bytes);
  if (name.empty()) fields->complain("name", "must not be empty");
  if (named(others, name) < others.size()) fields->complain("name", in_quotes(name) + " occurs twice");
  return name;
}

// Neither rate: only moves reach the tier. One without the other says nothing.
Access access_of(JsonFields* fields) {
  Access a;
  a.read_bytes_per_second = fields->amount("read_bytes_per_second", most_bandwidth, 0);
  a.write_bytes_per_second = fields->amount("write_bytes_per_second", most_bandwidth, 0);
  a.read_latency_us = fields->amount("read_latency_us", most_latency_us, 0);
  a.write_latency_us = fields->amount("write_latency_us", most_latency_us, 0);
  const double sum = a.read_bytes_per_second + a.write_bytes_per_second;
  if (sum == 0 && a.read_latency_us + a.write_latency_us == 0) return a;
  for (const auto& [key, rate] : {std::pair{"read_bytes_per_second", a.read_bytes_per_second},
                                  std::pair{"write_bytes_per_second", a.write_bytes_per_second}})
    if (rate < least_bytes_per_second)
      fields->complain(
          key, "must be at least 1 where the tier can be used in place; leave all rates out where not");
  return a;
}

double bandwidth(JsonFields* fields, const char* key) {
  const double rate = fields->amount(key, most_bandwidth);
  if (rate < least_bytes_per_second) fields->complain(key, "must be at least 1");
  return rate;
}

// Inside the first tier is the one place that there is; the name says so to people.
bool MachineReader::inside(JsonFields* fields) {
  const std::string outer = fields->text("inside", most_text_bytes);
  const bool first = machine_.tiers.empty() || machine_.tiers.front().name != outer;
  if (first) fields->complain("inside", "must be the name of the first tier, which stands before this one");
  const bool second = std::any_of(machine_.tiers.begin(), machine_.tiers.end(),
                                  [](const Tier& other) { return other.inside; });
  if (second) fields->complain("inside", "one tier lies inside the first one already");
  return true;
}

void MachineReader::tier(JsonFields* fields) {
  Tier tier;
  tier.name = unique_name(fields, machine_.tiers);
  tier.capacity_bytes = fields->whole("capacity_bytes", most_total_bytes, unlimited_bytes);
  tier.access = access_of(fields);
  if (fields->has("inside")) tier.inside = inside(fields);
  tier.paged = fields->flag("paged", false);
  if (tier.paged && !machine_.tiers.empty())
    fields->complain("paged", "is of the first tier alone; leave it out");
  if (fields->has("update_bytes_per_second"))
    tier.update_bytes_per_second = bandwidth(fields, "update_bytes_per_second");
  machine_.tiers.push_back(std::move(tier));
}

void MachineReader::link(JsonFields* fields) {
  Link link;
  link.name = unique_name(fields, machine_.links);
  link.in_bytes_per_second = bandwidth(fields, "in_bytes_per_second");
  link.out_bytes_per_second = bandwidth(fields, "out_bytes_per_second");
  link.in_latency_us = fields->amount("in_latency_us", most_latency_us, 0);
  link.out_latency_us = fields->amount("out_latency_us", most_latency_us, 0);
  machine_.links.push_back(std::move(link));
}

std::vector<std::uint32_t> MachineReader::route_links(JsonFields* fields) {
  std::vector<std::uint32_t> links;
  const json::array_t& names = fields->list("links");
  if (names.empty()) fields->complain("links", "a route needs at least one link");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t link = named(machine_.links, names[i].is_string() ? names[i].get<std::string>() : "");
    const auto index = static_cast<std::uint32_t>(link);
    if (link == machine_.links.size()) {
      fields->complain(json_place("links", i), "there is no link " + names[i].dump());
      return links;
    }
    if (std::count(links.begin(), links.end(), index) > 0) {
      fields->complain(json_place("links", i), "the link is on this route already");
      return links;
    }
    links.push_back(index);
  }
  return links;
}

// A far tier that is joined to the first one: what lies there may be needed at once.
std::uint32_t MachineReader::far_end(JsonFields* fields, const char* key) {
  const std::string name = fields->text(key, most_text_bytes);
  const std::size_t tier = named(machine_.tiers, name);
  const bool joined = machine_.has_route(static_cast<std::uint32_t>(tier));
  if (tier == machine_.tiers.size())
    fields->complain(key, "there is no tier " + in_quotes(name));
  else if (tier == 0 || !joined || machine_.is_inside(static_cast<std::uint32_t>(tier)))
    fields->complain(key, in_quotes(name) +
                              " has no route to the first tier above, or lies inside it; far "
                              "routes join tiers that have one");
  return static_cast<std::uint32_t>(tier);
}

void MachineReader::far_route(JsonFields* fields) {
  FarRoute route;
  route.from = far_end(fields, "from");
  route.tier = far_end(fields, "tier");
  if (route.from == route.tier) fields->complain("tier", "a route leads from one tier to another one");
  if (machine_.far_way(route.from, route.tier))
    fields->complain("tier", "there is a route between these two already");
  route.links = route_links(fields);
  machine_.far_routes.push_back(std::move(route));
}

// One that says where it begins is a far route, and stands behind those of its two tiers.
void MachineReader::route(JsonFields* fields) {
  if (fields->has("from")) return far_route(fields);
  Route route;
  const std::string name = fields->text("tier", most_text_bytes);
  const std::size_t tier = named(machine_.tiers, name);
  if (tier == machine_.tiers.size()) fields->complain("tier", "there is no tier " + in_quotes(name));
  if (tier == 0)
    fields->complain("tier", "routes without `from` begin at the first tier and lead to another one");
  route.tier = static_cast<std::uint32_t>(tier);
  for (const Route& other : machine_.routes) {
    if (other.tier == route.tier) fields->complain("tier", in_quotes(name) + " has a route already");
  }
  route.links = route_links(fields);
  machine_.routes.push_back(std::move(route));
}

// What such a codec stores is given, and values never come back from it.
void one_bit(JsonFields* fields) {
  for (const char* key :
       {"decompress_bytes_per_second", "stored_share", "drops_zeros", "overhead_share", "overlaps"})
    if (fields->has(key))
      fields->complain(key, "a codec that keeps one bit a value has none; leave it out, or `one_bit`");
}

void MachineReader::codec(JsonFields* fields) {
  CodecCost codec;
  codec.name = unique_name(fields, machine_.codecs);
  codec.compress_bytes_per_second = bandwidth(fields, "compress_bytes_per_second");
  codec.one_bit = fields->flag("one_bit", false);
  if (!codec.one_bit)
    codec.decompress_bytes_per_second = bandwidth(fields, "decompress_bytes_per_second");
  else
    one_bit(fields);
  codec.stored_share = fields->amount("stored_share", 1, 1);
  codec.drops_zeros = fields->flag("drops_zeros", false);
  codec.overhead_share = fields->amount("overhead_share", 1, codec.overhead_share);
  codec.overlaps = fields->flag("overlaps", false);
  machine_.codecs.push_back(std::move(codec));
}

std::string MachineReader::element(const std::string& key, std::size_t index, const json& value) {
  if (index >= most_parts) return key + ": more than " + std::to_string(most_parts);
  std::string error;
  JsonFields fields(value, json_place(key, index), &error);
  if (key == "tiers") tier(&fields);
  if (key == "links") link(&fields);
  if (key == "codecs") codec(&fields);
  if (key == "routes") routes_.push_back(value);
  return error;
}

std::string MachineReader::field(const std::string& key, const json& value) {
  if (FormatCheck::concerns(key)) return format_.see(key, value);
  std::string error;
  machine_.name = outer_text(key, value, most_text_bytes, &error);
  return error;
}

Wanted wanted_of_machine(const std::string& key) {
  if (key == "tiers" || key == "links" || key == "codecs" || key == "routes") return Wanted::elements;
  return key == "name" || FormatCheck::concerns(key) ? Wanted::whole : Wanted::no;
}

Result<Machine> MachineReader::read(std::string_view text) {
  JsonStream stream;
  stream.wanted = wanted_of_machine;
  stream.whole = [this](const std::string& k, const json& v) { return field(k, v); };
  stream.element = [this](const std::string& k, std::size_t i, const json& v) { return element(k, i, v); };
  std::string error = stream_json(text, stream);
  if (error.empty()) error = format_.missing();
  if (error.empty() && machine_.tiers.empty()) error = "tiers: at least one is needed";
  for (std::size_t i = 0; i < routes_.size() && error.empty(); ++i) {
    JsonFields fields(routes_[i], json_place("routes", i), &error);
    route(&fields);
  }
  if (!error.empty()) return refused<Machine>(std::move(error));
  return ok(std::move(machine_));
}

ordered tier_json(const Tier& tier, const std::string& outer) {
  ordered o{{"name", tier.name}};
  if (tier.capacity_bytes != unlimited_bytes) o["capacity_bytes"] = tier.capacity_bytes;
  if (tier.inside) o["inside"] = outer;
  if (tier.paged) o["paged"] = true;
  if (tier.update_bytes_per_second > 0) o["update_bytes_per_second"] = tier.update_bytes_per_second;
  if (!tier.access.in_place()) return o;
  o["read_bytes_per_second"] = tier.access.read_bytes_per_second;
  o["write_bytes_per_second"] = tier.access.write_bytes_per_second;
  o["read_latency_us"] = tier.access.read_latency_us;
  o["write_latency_us"] = tier.access.write_latency_us;
  return o;
}

ordered link_json(const Link& link) {
  return {{"name", link.name},
          {"in_bytes_per_second", link.in_bytes_per_second},
          {"out_bytes_per_second", link.out_bytes_per_second},
          {"in_latency_us", link.in_latency_us},
          {"out_latency_us", link.out_latency_us}};
}

ordered codec_json(const CodecCost& codec) {
  ordered o{{"name", codec.name}, {"compress_bytes_per_second", codec.compress_bytes_per_second}};
  if (codec.one_bit) {
    o["one_bit"] = true;
  } else {
    o["decompress_bytes_per_second"] = codec.decompress_bytes_per_second;
    o["stored_share"] = codec.stored_share;
    o["drops_zeros"] = codec.drops_zeros;
    o["overhead_share"] = codec.overhead_share;
  }
  if (codec.overlaps) o["overlaps"] = true;
  return o;
}

ordered links_json(const Machine& machine, const std::vector<std::uint32_t>& links) {
  ordered names = ordered::array();
  for (const std::uint32_t link : links) names.push_back(machine.links[link].name);
  return names;
}

ordered route_json(const Machine& machine, const Route& route) {
  return {{"tier", machine.tiers[route.tier].name}, {"links", links_json(machine, route.links)}};
}

ordered far_route_json(const Machine& machine, const FarRoute& route) {
  return {{"from", machine.tiers[route.from].name},
          {"tier", machine.tiers[route.tier].name},
          {"links", links_json(machine, route.links)}};
}

}  // namespace

Result<Machine> parse_machine(std::string_view text) { return MachineReader().read(text); }

std::string machine_json(const Machine& machine) {
  ordered o{{"format", "terrace-machine"}, {"version", 1}, {"name", machine.name}};
  for (const char* key : {"tiers", "links", "routes", "codecs"}) o[key] = ordered::array();
  for (const Tier& tier : machine.tiers) o["tiers"].push_back(tier_json(tier, machine.tiers[0].name));
  for (const Link& link : machine.links) o["links"].push_back(link_json(link));
  for (const Route& route : machine.routes) o["routes"].push_back(route_json(machine, route));
  for (const FarRoute& route : machine.far_routes) o["routes"].push_back(far_route_json(machine, route));
  for (const CodecCost& codec : machine.codecs) o["codecs"].push_back(codec_json(codec));
  return json_lines(o, 2) + "\n";
}

}  // namespace terrace::planner
