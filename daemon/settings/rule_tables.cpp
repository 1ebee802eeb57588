// See rule_tables.h.
#include "daemon/settings/rule_tables.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace terrace::daemon {
namespace {

constexpr std::size_t most_text_bytes = 4096;

// What a table says, under its keys.
struct Said {
  std::string user, group, name;
  std::optional<std::uint32_t> weight;
  Bounds dram, pool, writes, gpu;
  unsigned line = 0;

  bool guarantees() const { return dram.guarantee || pool.guarantee || writes.guarantee || gpu.guarantee; }
};

// Keys with an amount, in each of the tables.
struct AmountKey {
  std::string_view name;
  Bounds Said::*bounds;
  std::optional<Amount> Bounds::*amount;
};
constexpr std::array amount_keys{AmountKey{"guarantee", &Said::dram, &Bounds::guarantee},
                                 AmountKey{"limit", &Said::dram, &Bounds::limit},
                                 AmountKey{"pool_guarantee", &Said::pool, &Bounds::guarantee},
                                 AmountKey{"pool_limit", &Said::pool, &Bounds::limit},
                                 AmountKey{"writes_guarantee", &Said::writes, &Bounds::guarantee},
                                 AmountKey{"writes_limit", &Said::writes, &Bounds::limit},
                                 AmountKey{"gpu_guarantee", &Said::gpu, &Bounds::guarantee},
                                 AmountKey{"gpu_limit", &Said::gpu, &Bounds::limit}};

const AmountKey* find_amount(std::string_view key) {
  const auto found = std::find_if(amount_keys.begin(), amount_keys.end(),
                                  [key](const AmountKey& known) { return known.name == key; });
  return found == amount_keys.end() ? nullptr : &*found;
}

struct RuleTable {
  std::string_view name;
  std::array<std::string_view, 4> keys;                   // beside amounts; "" at the end
  std::string (*take)(const Said& said, Config* config);  // "" or what is wrong
  void (*clear)(Config* config);
};

ShareRule share_of(const Said& said) {
  return {.user = said.user,
          .group = said.group,
          .weight = said.weight.value_or(1),
          .guarantee = said.dram.guarantee,
          .limit = said.dram.limit,
          .line = said.line,
          .pool = said.pool,
          .writes = said.writes,
          .gpu = said.gpu};
}

std::string take_share(const Said& said, Config* config) {
  if (said.user.empty() == said.group.empty())
    return "[[share]]: name one user or one group, with user = \"NAME\" or group = \"NAME\"";
  if (said.guarantees() && said.user.empty())
    return "[[share]]: the members of a group cannot have a guarantee each, since nothing says how many "
           "members there are; give the group one guarantee in [[group]], or name users";
  config->shares.push_back(share_of(said));
  return {};
}

std::string take_group(const Said& said, Config* config) {
  if (said.name.empty()) return "[[group]]: name the group, with name = \"NAME\"";
  config->groups.push_back({.name = said.name,
                            .weight = said.weight,
                            .guarantee = said.dram.guarantee,
                            .limit = said.dram.limit,
                            .line = said.line,
                            .pool = said.pool,
                            .writes = said.writes,
                            .gpu = said.gpu});
  return {};
}

// A name of one job, or of several.
std::string wrong_job_name(const std::string& name) {
  if (name.empty())
    return "[[job]]: name the job, with name = \"NAME\"; a \"*\" in the name stands for any text";
  if (name.size() < wire::name_bytes) return {};
  return fmt::format("[[job]]: no job has a name of {} bytes; shorten it to {} at most", name.size(),
                     wire::name_bytes - 1);
}

std::string take_job(const Said& said, Config* config) {
  if (std::string wrong = wrong_job_name(said.name); !wrong.empty()) return wrong;
  if (said.user.empty() == said.group.empty())
    return "[[job]]: a job chooses its own name; say whose jobs these are, with user = \"NAME\" or group = "
           "\"NAME\"";
  if (said.guarantees() && (said.user.empty() || !is_one_name(said.name)))
    return "[[job]]: a guarantee belongs to one job, since nothing says how many jobs a group or a \"*\" "
           "stands for; name one user, and one job without a \"*\"";
  config->jobs.push_back({share_of(said), said.name});
  return {};
}

constexpr std::array rule_tables{
    RuleTable{
        "share", {"user", "group", "weight"}, take_share, [](Config* config) { config->shares.clear(); }},
    RuleTable{"group", {"name", "weight"}, take_group, [](Config* config) { config->groups.clear(); }},
    RuleTable{
        "job", {"name", "user", "group", "weight"}, take_job, [](Config* config) { config->jobs.clear(); }},
};

const RuleTable* find_table(std::string_view name) {
  for (const RuleTable& table : rule_tables)
    if (table.name == name) return &table;
  return nullptr;
}

std::string keys_of(const RuleTable& table) {
  std::string text;
  for (const std::string_view key : table.keys)
    if (!key.empty()) text += (text.empty() ? "" : ", ") + std::string(key);
  for (const AmountKey& key : amount_keys) text += ", " + std::string(key.name);
  return text;
}

std::optional<std::string> take_text(Said& said, std::string_view key, const std::string& value) {
  if (value.empty() || value.size() > most_text_bytes || value.find('\0') != std::string::npos)
    return "is empty, too long or has a NUL in it";
  if (key == "user" || key == "group" || key == "name") {
    (key == "user" ? said.user : key == "group" ? said.group : said.name) = value;
    return std::nullopt;
  }
  const auto amount = wire::parse_amount(value);
  if (!amount) return amount.error;
  const AmountKey& known = *find_amount(key);
  said.*known.bounds.*known.amount = *amount;
  return std::nullopt;
}

std::optional<std::string> take_weight(Said& said, const toml::node& node) {
  const auto weight = node.value_exact<std::int64_t>();
  if (!weight || *weight < 1 || *weight > most_weight)
    return fmt::format("weight: must be a whole number from 1 to {}, without quotes", most_weight);
  said.weight = static_cast<std::uint32_t>(*weight);
  return std::nullopt;
}

std::optional<std::string> take_value(const RuleTable& table, std::string_view key, const toml::node& node,
                                      Said& said) {
  const bool is_known = std::find(table.keys.begin(), table.keys.end(), key) != table.keys.end();
  if (key.empty() || (!is_known && find_amount(key) == nullptr))
    return fmt::format("unknown key \"{}\" in [[{}]]; known there: {}", key, table.name, keys_of(table));
  if (key == "weight") return take_weight(said, node);
  const auto value = node.value_exact<std::string>();
  if (!value) return fmt::format("\"{}\" in [[{}]] must be a string in quotes", key, table.name);
  const auto wrong = take_text(said, key, *value);
  return wrong ? std::optional(fmt::format("{}.{}: {}", table.name, key, *wrong)) : std::nullopt;
}

// Of a user, a group or a job; a weight of 1 says nothing.
template <class Rule>
toml::table amounts_of(const Rule& rule) {
  toml::table table;
  const auto insert = [&](Resource resource) {
    const Bounds bounds = bounds_of(rule, resource);
    if (bounds.guarantee) table.insert(key_of(resource, "guarantee"), wire::text_of(*bounds.guarantee));
    if (bounds.limit) table.insert(key_of(resource, "limit"), wire::text_of(*bounds.limit));
  };
  for (const Resource resource : {Resource::dram, Resource::pool, Resource::writes, Resource::gpu})
    insert(resource);
  return table;
}

// Of what is said of a user or of each member of a group.
template <class Rule>
toml::table table_of(const Rule& rule) {
  toml::table table = amounts_of(rule);
  table.insert("weight", std::int64_t{rule.weight});
  table.insert(rule.user.empty() ? "group" : "user", rule.user.empty() ? rule.group : rule.user);
  return table;
}

}  // namespace

bool is_rule_table(std::string_view name) { return find_table(name) != nullptr; }

std::string read_rules(std::string_view name, const toml::node& node, std::string_view file, Config* config) {
  const RuleTable& known = *find_table(name);
  const auto in_two_brackets = [&](const toml::node& where) {
    return located(file, where.source(), fmt::format("write [[{}]], in two brackets", name));
  };
  const toml::array* const tables = node.as_array();
  if (tables == nullptr) return in_two_brackets(node);
  known.clear(config);
  for (const toml::node& element : *tables) {
    const toml::table* const table = element.as_table();
    if (table == nullptr) return in_two_brackets(element);
    Said said;
    said.line = table->source().begin.line;
    for (const auto& [key, value] : *table) {
      if (const auto wrong = take_value(known, key.str(), value, said))
        return located(file, value.source(), *wrong);
    }
    if (const std::string wrong = known.take(said, config); !wrong.empty())
      return located(file, table->source(), wrong);
  }
  return {};
}

void insert_rules(const Config& config, toml::table* root) {
  toml::array shares, groups, jobs;
  for (const ShareRule& rule : config.shares) shares.push_back(table_of(rule));
  for (const JobRule& rule : config.jobs) {
    toml::table table = table_of(rule);
    table.insert("name", rule.name);
    jobs.push_back(std::move(table));
  }
  for (const GroupRule& rule : config.groups) {
    toml::table table = amounts_of(rule);
    if (rule.weight) table.insert("weight", std::int64_t{*rule.weight});
    table.insert("name", rule.name);
    groups.push_back(std::move(table));
  }
  if (!shares.empty()) root->insert("share", std::move(shares));
  if (!groups.empty()) root->insert("group", std::move(groups));
  if (!jobs.empty()) root->insert("job", std::move(jobs));
}

}  // namespace terrace::daemon
