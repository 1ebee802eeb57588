#include "daemon/planner/order/dependencies.h"

#include <algorithm>

namespace terrace::planner {
namespace {

constexpr std::uint32_t nobody = 0xffffffffU;

struct UseInOrder {
  std::uint32_t writer = nobody;
  std::vector<std::uint32_t> readers;  // since that writer
};

void read(UseInOrder& access, std::uint32_t op, std::vector<std::uint32_t>& waits) {
  if (access.writer != nobody) waits.push_back(access.writer);
  access.readers.push_back(op);
}

void write(UseInOrder& access, std::uint32_t op, std::vector<std::uint32_t>& waits) {
  if (access.writer != nobody) waits.push_back(access.writer);
  waits.insert(waits.end(), access.readers.begin(), access.readers.end());
  access.readers.clear();
  access.writer = op;
}

void tidy(std::vector<std::uint32_t>& waits, std::uint32_t self) {
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  if (!waits.empty() && waits.back() == self) waits.pop_back();  // nothing waits for what comes later
}

}  // namespace

Dependencies dependencies_of(const wire::Trace& trace) {
  const auto count = static_cast<std::uint32_t>(trace.ops.size());
  Dependencies graph{std::vector<std::vector<std::uint32_t>>(count),
                     std::vector<std::vector<std::uint32_t>>(count)};
  std::vector<UseInOrder> accesses(trace.tensors.size());
  for (std::uint32_t op = 0; op < count; ++op) {
    std::vector<std::uint32_t>& waits = graph.before[op];
    for (const std::uint32_t t : trace.ops[op].inputs) read(accesses[t], op, waits);
    for (const std::uint32_t t : trace.ops[op].outputs) write(accesses[t], op, waits);
    tidy(waits, op);
    for (const std::uint32_t first : waits) graph.after[first].push_back(op);
  }
  return graph;
}

AncestorSweep::AncestorSweep(const Dependencies& graph)
    : graph_(graph), sets_(graph.before.size()), waiting_(graph.before.size()) {
  for (std::size_t op = 0; op < waiting_.size(); ++op) waiting_[op] = graph.after[op].size();
}

void AncestorSweep::absorb(std::uint32_t op) {
  std::vector<std::uint64_t>& into = sets_[current_];
  const std::vector<std::uint64_t>& from = sets_[op];
  for (std::size_t word = 0; word < from.size(); ++word) into[word] |= from[word];
  into[op / 64] |= std::uint64_t{1} << (op % 64);
  if (--waiting_[op] == 0) sets_[op] = {};
}

void AncestorSweep::advance() {
  if (current_ != nobody && waiting_[current_] == 0) sets_[current_] = {};
  ++current_;
  sets_[current_].assign(current_ / 64 + 1, 0);
  for (const std::uint32_t op : graph_.before[current_]) absorb(op);
}

bool AncestorSweep::is_ancestor(std::uint32_t op) const {
  return op < current_ && ((sets_[current_][op / 64] >> (op % 64)) & 1) != 0;
}

}  // namespace terrace::planner
