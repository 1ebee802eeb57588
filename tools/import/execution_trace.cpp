// PyTorch's execution trace: a tree of operators, each with the tensors that it got and gave,
// [tensor id, storage id, offset, elements, bytes an element, device].
//
// Storages become tensors of the trace. Their ids are addresses, so they are used again: in a ResNet's step
// 287 ids stand for several storages, one of them for 477. A storage is a new one when an operator gives it
// that did not get it and that did not call one which gave it: nothing else can have made it. aten::empty is
// the plain case. The operations are the operators that give something which none of their callees gave, and
// the innermost ones; wrappers (aten::linear around aten::addmm) would only repeat them.
//
// Format: torch/csrc/profiler/standalone/execution_trace_observer.cpp, schemas 1.0.1 to 1.1.x.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_limits.h"
#include "tools/import/import.h"

namespace terrace::import {

using planner::check_limits;
using planner::json_place;
using planner::JsonFields;
using planner::JsonStream;
using planner::most_dtype_bytes;
using planner::most_ops;
using planner::most_tensor_bytes;
using planner::most_text_bytes;
using planner::no_tensor;
using planner::stream_json;
using planner::text_within;
using planner::Wanted;

namespace {

using nlohmann::json;
using wire::TensorKind;

constexpr std::size_t most_nodes = most_ops;
constexpr std::uint32_t unknown_tensor = no_tensor;

struct Use {
  std::uint64_t storage = 0;
  std::uint64_t end_bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t type = 0;  // index into the reader's types; 0: not told
};

struct Node {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::string name;
  bool backward = false;
  std::vector<Use> inputs;
  std::vector<Use> outputs;
};

std::uint32_t index_in(std::vector<std::string>* names, const std::string& name) {
  const auto found = std::find(names->begin(), names->end(), name);
  if (found != names->end()) return static_cast<std::uint32_t>(found - names->begin());
  names->push_back(name);
  return static_cast<std::uint32_t>(names->size() - 1);
}

// The nodes as the file has them.
class NodeReader {
 public:
  std::string read(std::string_view text);
  std::vector<Node> nodes;
  std::vector<std::string> devices;
  std::vector<std::string> types{""};

 private:
  std::string node(std::size_t index, const json& value);
  std::string attributes(const json& value, Node* node);
  std::vector<Use> uses(const json& value, const char* key, JsonFields* fields);
  bool tensors(const json& value, const json& type, std::vector<Use>* out, unsigned depth);
  static bool is_tensor(const json& value);
};

bool NodeReader::is_tensor(const json& v) {
  if (!v.is_array() || v.size() != 6 || !v[5].is_string()) return false;
  return std::all_of(v.begin(), v.begin() + 5, [](const json& n) { return n.is_number_unsigned(); });
}

// A value is a tensor, a list that may hold some, or something else. False: a size is out of range.
bool NodeReader::tensors(const json& value, const json& type, std::vector<Use>* out, unsigned depth) {
  if (!is_tensor(value)) {
    if (!value.is_array() || depth > 8) return true;
    return std::all_of(value.begin(), value.end(),
                       [&](const json& inner) { return tensors(inner, json(), out, depth + 1); });
  }
  const auto offset = value[2].get<std::uint64_t>();
  const auto elements = value[3].get<std::uint64_t>();
  const auto element_bytes = value[4].get<std::uint64_t>();
  if (element_bytes > 64 || offset > most_tensor_bytes / 64 || elements > most_tensor_bytes / 64)
    return false;
  const std::string& device = value[5].get_ref<const std::string&>();
  if (devices.size() >= 256 || types.size() >= 256) return false;
  Use use{value[1].get<std::uint64_t>(), (offset + elements) * element_bytes, index_in(&devices, device), 0};
  if (type.is_string())
    use.type = index_in(&types, text_within(type.get_ref<const std::string&>(), most_dtype_bytes));
  out->push_back(use);
  return true;
}

std::vector<Use> NodeReader::uses(const json& value, const char* key, JsonFields* fields) {
  std::vector<Use> all;
  const std::string old_types = key == std::string("inputs") ? "input_types" : "output_types";
  // Schema 1.0.1 has three lists side by side, later ones an object of three lists.
  const json side = value.value(key, json());
  const json values = side.is_object() ? side.value("values", json()) : side;
  const json told = side.is_object() ? side.value("types", json()) : value.value(old_types, json());
  if (!values.is_array()) {
    fields->complain(key, "expected a list of values");
    return all;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool typed = told.is_array() && i < told.size();
    if (!tensors(values[i], typed ? told[i] : json(), &all, 0)) {
      fields->complain(json_place(key, i), "a tensor's size is out of range, or there are too many devices");
      return all;
    }
  }
  return all;
}

// Scope 1 is RecordScope::BACKWARD_FUNCTION; an operator under one carries fw_parent or a name of autograd.
std::string NodeReader::attributes(const json& value, Node* node) {
  const json attributes = value.value("attrs", json::array());
  if (!attributes.is_array()) return "attrs: expected a list";
  for (const json& a : attributes) {
    if (a.is_object() && a.value("name", json()) == "scope" && a.value("value", json()) == 1) {
      node->backward = true;
    }
  }
  if (node->name.starts_with("autograd::engine::evaluate_function")) node->backward = true;
  return {};
}

std::string NodeReader::node(std::size_t index, const json& value) {
  if (index >= most_nodes) return "nodes: more than " + std::to_string(most_nodes);
  std::string error;
  JsonFields fields(value, json_place("nodes", index), &error);
  if (!error.empty()) return error;
  Node node;
  node.id = fields.whole("id", ~std::uint64_t{0});
  node.parent = fields.whole(fields.has("ctrl_deps") ? "ctrl_deps" : "parent", ~std::uint64_t{0}, 0);
  node.name = fields.text("name", most_text_bytes);
  node.inputs = uses(value, "inputs", &fields);
  node.outputs = uses(value, "outputs", &fields);
  if (std::string wrong = attributes(value, &node); !wrong.empty()) fields.complain({}, wrong);
  nodes.push_back(std::move(node));
  return error;
}

std::string NodeReader::read(std::string_view text) {
  JsonStream stream;
  stream.refuse_repeated_keys = false;
  stream.wanted = [](const std::string& key) { return key == "nodes" ? Wanted::elements : Wanted::no; };
  stream.whole = [](const std::string&, const json&) { return std::string(); };
  stream.element = [this](const std::string&, std::size_t i, const json& v) { return node(i, v); };
  return stream_json(text, stream);
}

// Replays the nodes' begins and ends in order and follows each storage.
class Replay {
 public:
  explicit Replay(NodeReader reader) : reader_(std::move(reader)) {}
  Result<Imported> run();

 private:
  std::string build_tree();
  void choose_device();
  void begin(std::uint32_t node);
  void end(std::uint32_t node);
  std::uint32_t tensor_of(const Use& use);
  std::uint32_t given(const Use& use, std::uint32_t node);
  void grow(std::uint32_t tensor, const Use& use);
  void note();

  struct Open {
    std::uint32_t node;
    std::size_t tensors_before;               // what was made since has a higher index
    std::vector<std::uint32_t> inputs;        // as tensors of the trace
    std::vector<std::uint32_t> got;           // the same, sorted
    std::unordered_set<std::uint32_t> given;  // by its callees
    bool leaf = true;
    bool backward = false;
  };

  NodeReader reader_;
  std::vector<std::vector<std::uint32_t>> children_;
  std::vector<std::uint32_t> roots_;
  std::vector<Open> open_;
  std::uint32_t device_ = 0;
  std::size_t elsewhere_ = 0;                                 // uses of storages on other devices
  std::unordered_map<std::uint64_t, std::uint32_t> current_;  // storage id -> tensor
  Imported out_;
};

std::string Replay::build_tree() {
  std::vector<Node>& nodes = reader_.nodes;
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
  std::unordered_map<std::uint64_t, std::uint32_t> at;
  children_.resize(nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (!at.emplace(nodes[i].id, i).second)
      return "nodes: the id " + std::to_string(nodes[i].id) + " occurs twice";
    // Ids grow in the order in which operators begin, so a caller stands before its callees; anything else
    // would be a circle.
    const auto parent = at.find(nodes[i].parent);
    if (parent == at.end() || parent->second == i) {
      roots_.push_back(i);
    } else {
      children_[parent->second].push_back(i);
    }
  }
  return {};
}

void Replay::choose_device() {
  std::vector<std::uint64_t> uses(reader_.devices.size());
  for (const Node& node : reader_.nodes) {
    for (const Use& use : node.outputs) uses[use.device] += use.end_bytes;
  }
  device_ = static_cast<std::uint32_t>(std::max_element(uses.begin(), uses.end()) - uses.begin());
}

void Replay::grow(std::uint32_t tensor, const Use& use) {
  wire::TraceTensor& t = out_.trace.tensors[tensor];
  t.bytes = std::max(t.bytes, use.end_bytes);
  if (t.dtype.empty()) t.dtype = reader_.types[use.type];
}

// A storage that an operator gets and nobody gave was there before the step.
std::uint32_t Replay::tensor_of(const Use& use) {
  if (use.device != device_) {
    ++elsewhere_;
    return unknown_tensor;
  }
  const auto index = static_cast<std::uint32_t>(out_.trace.tensors.size());
  const auto [found, is_new] = current_.emplace(use.storage, index);
  if (is_new) {
    const bool whole_numbers = reader_.types[use.type].find("long") != std::string::npos;
    out_.trace.tensors.push_back(
        {index, 0, whole_numbers ? TensorKind::input : TensorKind::weight, true, {}, {}, {}});
  }
  grow(found->second, use);
  return found->second;
}

std::uint32_t Replay::given(const Use& use, std::uint32_t /*node*/) {
  if (use.device != device_) return unknown_tensor;
  const Open& open = open_.back();
  const auto found = current_.find(use.storage);
  const bool got =
      found != current_.end() && std::binary_search(open.got.begin(), open.got.end(), found->second);
  const bool made_inside = found != current_.end() && found->second >= open.tensors_before;
  const bool given_inside = found != current_.end() && open.given.count(found->second) > 0;
  if (!got && !made_inside && !given_inside) {
    const auto index = static_cast<std::uint32_t>(out_.trace.tensors.size());
    const TensorKind kind = open.backward ? TensorKind::gradient : TensorKind::activation;
    out_.trace.tensors.push_back({index, 0, kind, false, {}, {}, {}});
    current_[use.storage] = index;
  }
  const std::uint32_t tensor = current_[use.storage];
  grow(tensor, use);
  return tensor;
}

void Replay::begin(std::uint32_t node) {
  const Node& n = reader_.nodes[node];
  Open open;
  open.node = node;
  open.leaf = children_[node].empty();
  open.backward = n.backward || (!open_.empty() && open_.back().backward);
  for (const Use& use : n.inputs) {
    const std::uint32_t tensor = tensor_of(use);
    if (tensor != unknown_tensor) open.inputs.push_back(tensor);
  }
  open.got = open.inputs;
  std::sort(open.got.begin(), open.got.end());
  open.tensors_before = out_.trace.tensors.size();
  open_.push_back(std::move(open));
}

void Replay::end(std::uint32_t node) {
  wire::TraceOp op;
  bool own = open_.back().leaf;
  for (const Use& use : reader_.nodes[node].outputs) {
    const std::uint32_t tensor = given(use, node);
    if (tensor == unknown_tensor) continue;
    own = own || open_.back().given.count(tensor) == 0;
    op.outputs.push_back(tensor);
  }
  Open done = std::move(open_.back());
  open_.pop_back();
  if (!open_.empty()) {
    // The smaller into the larger: a tensor moves as often as sets double, not once for each caller above it.
    if (open_.back().given.size() < done.given.size()) open_.back().given.swap(done.given);
    open_.back().given.insert(done.given.begin(), done.given.end());
    open_.back().given.insert(op.outputs.begin(), op.outputs.end());
  }
  op.name = reader_.nodes[node].name;
  op.inputs = std::move(done.inputs);
  if (own && !(op.inputs.empty() && op.outputs.empty())) out_.trace.ops.push_back(std::move(op));
}

void Replay::note() {
  out_.notes.emplace_back("the format has no times: every operation takes 0 us");
  out_.notes.emplace_back("the format has no releases: a storage ends with its last use");
  out_.notes.emplace_back(
      "storages from before the step count as weights, and those of whole numbers as inputs");
  if (elsewhere_ > 0) {
    out_.notes.push_back(std::to_string(elsewhere_) + " uses of storages that are not on " +
                         reader_.devices[device_] + " were left out");
  }
}

Result<Imported> Replay::run() {
  if (std::string wrong = build_tree(); !wrong.empty()) return refused<Imported>(std::move(wrong));
  if (reader_.devices.empty()) return refused<Imported>("no operator of the execution trace has a tensor");
  choose_device();
  // Depth first without recursion: the file decides how deep operators nest.
  std::vector<std::pair<std::uint32_t, std::size_t>> stack;
  for (const std::uint32_t root : roots_) {
    begin(root);
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < children_[node].size()) {
        const std::uint32_t child = children_[node][next++];
        begin(child);
        stack.emplace_back(child, 0);
      } else {
        end(node);
        stack.pop_back();
      }
    }
  }
  out_.trace.source = text_within("PyTorch execution trace, " + reader_.devices[device_]);
  note();
  if (std::string wrong = check_limits(out_.trace); !wrong.empty()) return refused<Imported>(wrong);
  return ok(std::move(out_));
}

}  // namespace

Result<Imported> import_execution_trace(std::string_view text) {
  NodeReader reader;
  if (std::string wrong = reader.read(text); !wrong.empty()) return refused<Imported>(std::move(wrong));
  return Replay(std::move(reader)).run();
}

}  // namespace terrace::import
