// See tier_tables.h.
#include "daemon/settings/tier_tables.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tiers/extent_allocator.h"

namespace terrace::daemon {
namespace {

constexpr std::size_t most_word_bytes = 4096;

// What a table says, under its keys; empty: nothing.
struct SaidOfTier {
  std::string kind = {}, size = {}, directory = {}, nodes = {};
  unsigned line = 0;
};

struct TierKind {
  std::string_view name;
  std::array<std::string_view, 4> keys;  // "" at the end
  std::string (*take)(const SaidOfTier& said, const toml::table& root,
                      Config* config);  // "" or what is wrong
};

std::string take_compressed(const SaidOfTier& said, const toml::table&, Config* config) {
  const auto amount = wire::parse_amount(said.size);
  if (!amount) return fmt::format("size: {}", amount.error);
  constexpr auto half = Amount::percent(50);
  if (amount->unit == half.unit && amount->value > half.value)
    return fmt::format(
        "size: {} of a job's budget is too much, since the job works in the rest; give at most 50%",
        said.size);
  if (amount->value == 0)
    return "size: nothing fits into 0; give more, such as \"20%\", or leave this tier out";
  config->tiers.compressed = *amount;
  return {};
}

std::string wrong_size_on(const std::string& size, std::optional<std::uint64_t>* bytes) {
  const auto read = wire::parse_size(size);
  if (!read) return fmt::format("size: {}", read.error);
  if (*read < wire::least_pool_bytes)
    return fmt::format("size: {} has no room for two runs; give at least {}B", size, wire::least_pool_bytes);
  if (*read > tiers::ExtentAllocator::max_capacity_bytes)
    return fmt::format("size: {} is more than the most of 4T; give less", size);
  *bytes = *read;
  return {};
}

std::string take_nvm(const SaidOfTier& said, const toml::table&, Config* config) {
  NvmRule rule{.directory = said.directory, .nodes_text = said.nodes, .line = said.line};
  std::optional<std::uint64_t> bytes;
  if (std::string wrong = wrong_size_on(said.size, &bytes); !wrong.empty()) return wrong;
  rule.bytes = *bytes;
  if (!said.directory.empty() && !said.nodes.empty())
    return "NVM is in a directory or on NUMA nodes: leave out \"directory\" or \"nodes\"";
  if (!said.directory.empty() && said.directory.front() != '/')
    return fmt::format("directory: \"{}\" is no absolute path; write one that begins with /", said.directory);
  if (!said.nodes.empty() && !rule.nodes.read(said.nodes.c_str()))
    return fmt::format("nodes: \"{}\" are no NUMA nodes; write a list such as \"1\" or \"2-3\"", said.nodes);
  config->tiers.nvm = std::move(rule);
  return {};
}

bool has_key(const toml::table& root, std::string_view table, std::string_view key) {
  const toml::table* const found = root[table].as_table();
  return found != nullptr && found->contains(key);
}

std::string take_nvme(const SaidOfTier& said, const toml::table& root, Config* config) {
  for (const std::string_view key : {"directory", "size"})
    if (has_key(root, "pool", key))
      return fmt::format("[pool] has the pool's {} as well; leave one of the two out", key);
  if (said.directory.empty()) return "say where, with directory = \"/path\"";
  if (auto wrong = check_directory(said.directory)) return fmt::format("directory: {}", *wrong);
  config->pool_directory = said.directory;
  return said.size.empty() ? "" : wrong_size_on(said.size, &config->pool_bytes);
}

constexpr std::array tier_kinds{
    TierKind{"compressed", {"kind", "size"}, take_compressed},
    TierKind{"nvm", {"kind", "size", "directory", "nodes"}, take_nvm},
    TierKind{"nvme", {"kind", "size", "directory"}, take_nvme},
};

const TierKind* find_kind(std::string_view name) {
  for (const TierKind& kind : tier_kinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

std::string keys_of(const TierKind& kind) {
  std::string text;
  for (const std::string_view key : kind.keys)
    if (!key.empty()) text += (text.empty() ? "" : ", ") + std::string(key);
  return text;
}

std::string* word_of(SaidOfTier& said, std::string_view key) {
  if (key == "kind") return &said.kind;
  if (key == "size") return &said.size;
  if (key == "directory") return &said.directory;
  return key == "nodes" ? &said.nodes : nullptr;
}

std::optional<std::string> take_word(std::string_view key, const toml::node& node, SaidOfTier& said) {
  std::string* const place = word_of(said, key);
  if (place == nullptr)
    return fmt::format("unknown key \"{}\" in [[tier]]; known there: kind, size, directory, nodes", key);
  const auto value = node.value_exact<std::string>();
  if (!value) return fmt::format("\"{}\" in [[tier]] must be a string in quotes", key);
  if (value->empty() || value->size() > most_word_bytes || value->find('\0') != std::string::npos)
    return fmt::format("tier.{}: is empty, too long or has a NUL in it", key);
  *place = *value;
  return std::nullopt;
}

std::string wrong_kind(const SaidOfTier& said) {
  constexpr std::string_view known = "\"compressed\", \"nvm\" or \"nvme\"";
  if (said.kind.empty()) return fmt::format("[[tier]]: say which, with kind = {}", known);
  const TierKind* const kind = find_kind(said.kind);
  if (kind == nullptr) return fmt::format("[[tier]]: \"{}\" is no kind of tier; write {}", said.kind, known);
  const auto takes = [&](std::string_view key) {
    return std::find(kind->keys.begin(), kind->keys.end(), key) != kind->keys.end();
  };
  for (const auto& [key, value] : {std::pair("directory", &said.directory), std::pair("nodes", &said.nodes)})
    if (!value->empty() && !takes(key))
      return fmt::format("[[tier]]: {} tiers have no \"{}\"; known of them: {}", said.kind, key,
                         keys_of(*kind));
  if (said.size.empty() && said.kind != "nvme")
    return fmt::format("[[tier]]: say how much {} there is, with size = \"64G\"", said.kind);
  return {};
}

std::string take_table(const toml::table& table, const toml::table& root, std::string_view file,
                       Config* config, std::array<bool, tier_kinds.size()>* seen) {
  SaidOfTier said{.line = table.source().begin.line};
  for (const auto& [key, value] : table)
    if (const auto wrong = take_word(key.str(), value, said)) return located(file, value.source(), *wrong);
  if (const std::string wrong = wrong_kind(said); !wrong.empty()) return located(file, table.source(), wrong);
  const TierKind* const kind = find_kind(said.kind);
  bool& is_seen = (*seen)[static_cast<std::size_t>(kind - tier_kinds.data())];
  if (std::exchange(is_seen, true))
    return located(file, table.source(),
                   fmt::format("[[tier]]: {} stands there twice; leave one of them out", said.kind));
  const std::string wrong = kind->take(said, root, config);
  return wrong.empty() ? "" : located(file, table.source(), fmt::format("[[tier]] {}: {}", said.kind, wrong));
}

}  // namespace

std::string read_tiers(const toml::table& root, std::string_view file, Config* config) {
  const toml::node* const node = root.get("tier");
  if (node == nullptr) return {};
  const auto in_two_brackets = [&](const toml::node& where) {
    return located(file, where.source(), "write [[tier]], in two brackets");
  };
  const toml::array* const tables = node->as_array();
  if (tables == nullptr) return in_two_brackets(*node);
  config->tiers = {};
  std::array<bool, tier_kinds.size()> seen{};
  for (const toml::node& element : *tables) {
    const toml::table* const table = element.as_table();
    if (table == nullptr) return in_two_brackets(element);
    if (std::string wrong = take_table(*table, root, file, config, &seen); !wrong.empty()) return wrong;
  }
  return {};
}

void insert_tiers(const Config& config, toml::table* root) {
  toml::array tables;
  if (const auto& compressed = config.tiers.compressed)
    tables.push_back(toml::table{{"kind", "compressed"}, {"size", wire::text_of(*compressed)}});
  if (const auto& nvm = config.tiers.nvm) {
    toml::table table{{"kind", "nvm"}, {"size", fmt::format("{}B", nvm->bytes)}};
    if (!nvm->directory.empty()) table.insert("directory", nvm->directory);
    if (!nvm->nodes_text.empty()) table.insert("nodes", nvm->nodes_text);
    tables.push_back(std::move(table));
  }
  if (!tables.empty()) root->insert("tier", std::move(tables));
}

}  // namespace terrace::daemon
