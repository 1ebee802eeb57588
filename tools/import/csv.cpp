#include <algorithm>
#include <charconv>
#include <limits>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_limits.h"
#include "tools/import/import.h"

namespace terrace::import {

using planner::Buffer;
using planner::in_quotes;
using planner::Instance;
using planner::most_tensor_bytes;
using planner::most_tensors;
using planner::most_total_bytes;

namespace {

constexpr std::array<const char*, 7> columns = {"id", "lower", "upper", "size", "alignment", "gaps", "hint"};
enum Column : std::uint8_t { id, lower, upper, size, alignment };
constexpr std::size_t most_columns = 16;

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (cells.size() < most_columns) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  return cells;
}

class CsvReader {
 public:
  Result<Instance> read(std::string_view text);

 private:
  std::string header(std::string_view line);
  std::string row(std::string_view line);
  std::uint64_t number(Column column, std::uint64_t least, std::uint64_t most, std::string* error);

  std::vector<int> place_of_ = std::vector<int>(columns.size(), -1);
  std::vector<std::string_view> cells_;
  std::size_t column_count_ = 0;
  std::uint64_t total_ = 0;
  Instance instance_;
};

std::string CsvReader::header(std::string_view line) {
  const std::vector<std::string_view> names = cells_of(line);
  column_count_ = names.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto* known = std::find(columns.begin(), columns.end(), names[i]);
    if (known == columns.end()) return "the column " + in_quotes(names[i]) + " is unknown";
    int& place = place_of_[static_cast<std::size_t>(known - columns.begin())];
    if (place >= 0) return "the column " + in_quotes(names[i]) + " occurs twice";
    place = static_cast<int>(i);
  }
  for (const Column c : {lower, upper, size}) {
    if (place_of_[c] < 0) return "the column " + in_quotes(columns.at(c)) + " is missing";
  }
  return {};
}

std::uint64_t CsvReader::number(Column column, std::uint64_t least, std::uint64_t most, std::string* error) {
  const std::string_view cell = cells_[static_cast<std::size_t>(place_of_[column])];
  std::uint64_t n = 0;
  const auto [end, rc] = std::from_chars(cell.data(), cell.data() + cell.size(), n);
  const bool whole = rc == std::errc() && end == cell.data() + cell.size();
  if (error->empty() && (!whole || n < least || n > most)) {
    *error = std::string(columns.at(column)) + ": " + in_quotes(cell) + " is no whole number from " +
             std::to_string(least) + " to " + std::to_string(most);
  }
  return n;
}

std::string CsvReader::row(std::string_view line) {
  cells_ = cells_of(line);
  if (cells_.size() != column_count_) return "expected " + std::to_string(column_count_) + " cells";
  if (instance_.buffers.size() >= most_tensors) return "more buffers than " + std::to_string(most_tensors);
  std::string error;
  constexpr std::uint64_t last_time = std::numeric_limits<std::uint32_t>::max();
  Buffer buffer;
  buffer.lower = static_cast<std::uint32_t>(number(lower, 0, last_time - 1, &error));
  buffer.upper = static_cast<std::uint32_t>(number(upper, buffer.lower + 1ULL, last_time, &error));
  buffer.bytes = number(size, 0, most_tensor_bytes, &error);
  if (place_of_[alignment] >= 0) buffer.alignment = number(alignment, 1, most_tensor_bytes, &error);
  if ((buffer.alignment & (buffer.alignment - 1)) != 0) return "alignment: expected a power of two";
  total_ += buffer.bytes;
  if (total_ > most_total_bytes) return "the sizes add up to more than 4 EiB";
  instance_.buffers.push_back(buffer);
  return error;
}

Result<Instance> CsvReader::read(std::string_view text) {
  for (std::size_t n = 1; !text.empty(); ++n) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string wrong = column_count_ == 0 ? header(line) : row(line);
    if (!wrong.empty()) return refused<Instance>("line " + std::to_string(n) + ": " + wrong);
  }
  if (column_count_ == 0) return refused<Instance>("the file is empty");
  return ok(std::move(instance_));
}

std::vector<std::uint32_t> moments(const Instance& instance) {
  std::vector<std::uint32_t> all;
  for (const Buffer& b : instance.buffers) all.insert(all.end(), {b.lower, b.upper});
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

Result<Instance> parse_csv(std::string_view text) { return CsvReader().read(text); }

std::string csv_of(const Instance& instance) {
  const bool aligned = std::any_of(instance.buffers.begin(), instance.buffers.end(),
                                   [](const Buffer& b) { return b.alignment != 1; });
  std::string text = aligned ? "id,lower,upper,size,alignment\n" : "id,lower,upper,size\n";
  for (std::size_t i = 0; i < instance.buffers.size(); ++i) {
    const Buffer& b = instance.buffers[i];
    text += std::to_string(i);
    for (const std::uint64_t n : {std::uint64_t{b.lower}, std::uint64_t{b.upper}, b.bytes}) {
      text += ',';
      text += std::to_string(n);
    }
    if (aligned) text.append(",").append(std::to_string(b.alignment));
    text += '\n';
  }
  return text;
}

Imported trace_of(const Instance& instance) {
  Imported imported;
  imported.trace.name = instance.name;
  imported.trace.source = "lifetimes";
  imported.trace.reads_known = false;
  const std::vector<std::uint32_t> times = moments(instance);
  const auto op_at = [&times](std::uint32_t time) {
    return static_cast<std::size_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  // Between moment i and the next one lies operation i.
  imported.trace.ops.resize(times.empty() ? 0 : times.size() - 1);
  for (std::size_t i = 0; i < imported.trace.ops.size(); ++i) {
    imported.trace.ops[i].name = "from " + std::to_string(times[i]);
    imported.trace.ops[i].recomputable = false;  // from what is not known
  }
  for (std::uint32_t i = 0; i < instance.buffers.size(); ++i) {
    const Buffer& b = instance.buffers[i];
    imported.trace.tensors.push_back({i, b.bytes, wire::TensorKind::other, false, {}, {}, {}});
    imported.trace.ops[op_at(b.lower)].outputs.push_back(i);
    const std::size_t last = op_at(b.upper) - 1;
    if (last != op_at(b.lower)) imported.trace.ops[last].inputs.push_back(i);
  }
  imported.notes = {"only the lives of buffers are known, and no times, uses or kinds"};
  return imported;
}

}  // namespace terrace::import
