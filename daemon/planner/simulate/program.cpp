#include "daemon/planner/simulate/program.h"

#include <algorithm>
#include <cmath>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/running_statistics.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

class Builder {
 public:
  Builder(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule)
      : trace_(trace),
        machine_(machine),
        schedule_(schedule),
        mark_(trace.tensors.size(), no_run),
        writers_(trace.tensors.size()),
        as_bits_(trace.tensors.size(), no_entry) {}

  Result<Program> build() {
    p_.named_begin.push_back(0);
    p_.runs.reserve(trace_.ops.size());
    p_.op_run.reserve(trace_.ops.size());
    p_.entry_run.assign(schedule_.entries.size(), no_run);
    p_.entry_runs.assign(schedule_.entries.size(), 0);
    resolve_entries();
    resolve_routes();
    name_objects();
    std::size_t next = 0;
    for (std::uint32_t op = 0; op <= trace_.ops.size(); ++op) {
      while (next < schedule_.entries.size() && schedule_.entries[next].at == op) next = add_entry(next);
      if (error_.empty() && op < trace_.ops.size()) add_op(op);
      if (!error_.empty()) return refused<Program>(error_);
    }
    index_uses();
    return ok(std::move(p_));
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const wire::Schedule& schedule_;
  Program p_;
  std::vector<std::uint32_t> mark_;  // place in p_.named of the run being made
  // By tensor: the operations that wrote it so far, each once. The content that the nth of them left is the
  // tensor's version n.
  std::vector<std::vector<std::uint32_t>> writers_;
  std::vector<std::size_t> as_bits_;  // by tensor: the entry that left one bit of each value, or no_entry
  std::string error_;

  static constexpr std::size_t no_entry = std::numeric_limits<std::size_t>::max();

  void resolve_entries() {
    for (const ScheduleEntry& e : schedule_.entries) {
      const std::uint32_t codec = e.codec == 0 ? no_codec : e.codec - 1;
      const wire::TraceTensor& t = trace_.tensors[e.object];
      p_.entry_codec.push_back(codec);
      p_.entry_stored.push_back(codec == no_codec ? t.bytes : stored_bytes(t, machine_.codecs[codec]));
    }
  }

  void resolve_routes() {
    p_.routes = static_cast<std::uint32_t>(machine_.routes.size());
    p_.route_of_tier.assign(machine_.tiers.size(), no_run);
    for (std::uint32_t r = 0; r < machine_.routes.size(); ++r) p_.route_of_tier[machine_.routes[r].tier] = r;
  }

  void name_objects() {
    p_.objects.resize(trace_.tensors.size());
    for (std::size_t t = 0; t < trace_.tensors.size(); ++t) p_.objects[t].bytes = trace_.tensors[t].bytes;
  }

  void name(std::uint32_t tensor, bool reads, bool writes, bool values) {
    const std::uint32_t begin = p_.named_begin.back();
    if (mark_[tensor] == no_run || mark_[tensor] < begin) {
      mark_[tensor] = static_cast<std::uint32_t>(p_.named.size());
      p_.named.push_back({tensor, false, false, false});
    }
    Named& n = p_.named[mark_[tensor]];
    n.reads |= reads;
    n.writes |= writes;
    n.values |= values;
  }

  void name_input(const wire::TraceOp& op, std::uint32_t tensor) {
    name(tensor, true, false, !reads_sign_only(op, tensor));
  }

  // A content of which one bit each is left is read for no more, until it is written whole.
  void check_as_bits(const Run& run) {
    const std::string again = run.again ? "recomputing operation " : "operation ";
    for (std::uint32_t n = p_.named_begin.back(); n < p_.named.size() && error_.empty(); ++n) {
      const Named& named = p_.named[n];
      std::size_t& entry = as_bits_[named.tensor];
      if (entry != no_entry && named.values)
        error_ = "entries[" + std::to_string(entry) + "]: it leaves one bit of each value of tensor " +
                 std::to_string(trace_.tensors[named.tensor].id) + ", and " + again + std::to_string(run.op) +
                 " ('" + trace_.ops[run.op].name +
                 "') needs the values later; use another codec, or drop the tensor and make it again before";
      if (named.writes) entry = no_entry;
    }
  }

  void close_run(const Run& run) {
    check_as_bits(run);
    p_.named_begin.push_back(static_cast<std::uint32_t>(p_.named.size()));
    p_.runs.push_back(run);
  }

  void add_op(std::uint32_t op) {
    const wire::TraceOp& o = trace_.ops[op];
    for (const std::uint32_t t : o.inputs) name_input(o, t);
    for (const std::uint32_t t : o.outputs) {
      name(t, false, true, false);
      if (writers_[t].empty() || writers_[t].back() != op) writers_[t].push_back(op);
    }
    p_.op_run.push_back(static_cast<std::uint32_t>(p_.runs.size()));
    close_run({op, op, false, o.time_us, o.workspace_bytes});
  }

  std::size_t add_entry(std::size_t i) {
    const ScheduleEntry& e = schedule_.entries[i];
    if (e.action == Action::redo) return add_recompute(i);
    if (e.action == Action::out && p_.entry_codec[i] != no_codec &&
        machine_.codecs[p_.entry_codec[i]].one_bit)
      as_bits_[e.object] = i;
    if (e.action == Action::in && as_bits_[e.object] != no_entry)
      error_ =
          "entries[" + std::to_string(i) + "]: one bit of each value of tensor " +
          std::to_string(trace_.tensors[e.object].id) + " is left by entries[" +
          std::to_string(as_bits_[e.object]) +
          "], and no value comes back from that; leave this entry out, or drop the tensor and make it again";
    return i + 1;
  }

  bool has(const std::vector<std::uint32_t>& list, std::uint32_t tensor) const {
    return std::find(list.begin(), list.end(), tensor) != list.end();
  }

  std::uint32_t last_writer(std::uint32_t tensor) const {
    return writers_[tensor].empty() ? no_run : writers_[tensor].back();
  }

  // Why running `op` again here, as a part of making `kept` again, would give something else than it gave;
  // empty if it would not. What it updates of `kept` was made again just before it.
  std::string unrepeatable(std::uint32_t op, std::uint32_t kept) const {
    const wire::TraceOp& o = trace_.ops[op];
    if (!o.recomputable) return "is marked as not recomputable";
    for (const std::uint32_t t : o.inputs) {
      if (t == kept || leaves_alone(trace_, o, t)) continue;
      const std::string which = "tensor " + std::to_string(trace_.tensors[t].id);
      if (has(o.outputs, t)) return "updates " + which + " in place";
      const std::uint32_t writer = last_writer(t);
      if (writer != no_run && writer > op) return "reads " + which + ", which was changed since";
    }
    return {};
  }

  // The operations that make a tensor's content from nothing of it: the last one that wrote it whole, and all
  // updates in place since. The message of a refusal goes on after the operation's name.
  std::vector<std::uint32_t> makers(std::uint32_t tensor, std::uint32_t* refused_op, std::string* why) const {
    std::vector<std::uint32_t> ops;
    for (auto writer = writers_[tensor].rbegin(); writer != writers_[tensor].rend(); ++writer) {
      ops.insert(ops.begin(), *writer);
      *refused_op = *writer;
      if (*why = unrepeatable(*writer, tensor); !why->empty()) return {};
      if (!has(trace_.ops[*writer].inputs, tensor)) return ops;
      if (ops.size() == most_updates_again) {
        *why = "is the " + std::to_string(most_updates_again) + "th of too many updates in place";
        return {};
      }
    }
    *why = "updates tensor " + std::to_string(trace_.tensors[tensor].id) +
           " in place, whose content no operation before it made";
    return {};
  }

  // All entries in a row whose tensors one operation made. Answers the next entry.
  std::size_t add_recompute(std::size_t first) {
    const std::vector<ScheduleEntry>& entries = schedule_.entries;
    const std::uint32_t tensor = entries[first].object;
    const std::uint32_t op = last_writer(tensor);
    const std::string which = "entries[" + std::to_string(first) + "]: ";
    if (op == no_run) {
      error_ = which + "nothing before it makes tensor " + std::to_string(trace_.tensors[tensor].id) +
               "; it cannot be recomputed";
      return first + 1;
    }
    std::uint32_t refused_op = op;
    std::string why;
    const std::vector<std::uint32_t> ops = makers(tensor, &refused_op, &why);
    if (!why.empty()) {
      error_ = which + "operation " + std::to_string(refused_op) + " ('" + trace_.ops[refused_op].name +
               "') " + why + "; keep or move the tensor instead";
      return first + 1;
    }
    std::size_t last = first + 1;
    while (ops.size() == 1 && last < entries.size() && entries[last].at == entries[first].at &&
           entries[last].action == Action::redo && last_writer(entries[last].object) == op &&
           !has(trace_.ops[op].inputs, entries[last].object)) {
      ++last;
    }
    p_.entry_run[first] = static_cast<std::uint32_t>(p_.runs.size());
    p_.entry_runs[first] = static_cast<std::uint32_t>(ops.size());
    for (const std::uint32_t o : ops) close_recompute(o, first, last);
    return last;
  }

  void close_recompute(std::uint32_t op, std::size_t first, std::size_t last) {
    const wire::TraceOp& o = trace_.ops[op];
    const auto is_made = [&](std::uint32_t t) {
      const auto of = schedule_.entries.begin();
      return std::any_of(of + static_cast<std::ptrdiff_t>(first), of + static_cast<std::ptrdiff_t>(last),
                         [t](const ScheduleEntry& e) { return e.object == t; });
    };
    for (const std::uint32_t t : o.inputs)
      if (is_made(t) || !leaves_alone(trace_, o, t)) name_input(o, t);
    for (std::size_t i = first; i < last; ++i) name(schedule_.entries[i].object, false, true, false);
    Run run{op, schedule_.entries[first].at, true, o.time_us, o.workspace_bytes};
    for (auto t = o.outputs.begin(); t != o.outputs.end(); ++t) {
      if (is_made(*t) || leaves_alone(trace_, o, *t) || std::find(o.outputs.begin(), t, *t) != t) continue;
      run.extra_bytes += trace_.tensors[*t].bytes;
      run.unkept_bytes.push_back(trace_.tensors[*t].bytes);
    }
    close_run(run);
  }

  void index_uses() {
    p_.uses_begin.assign(trace_.tensors.size() + 1, 0);
    for (const Named& n : p_.named) ++p_.uses_begin[n.tensor + 1];
    for (std::size_t t = 0; t < trace_.tensors.size(); ++t) p_.uses_begin[t + 1] += p_.uses_begin[t];
    std::vector<std::uint32_t> at(p_.uses_begin.begin(), p_.uses_begin.end() - 1);
    p_.uses.resize(p_.named.size());
    for (std::uint32_t run = 0; run < p_.runs.size(); ++run) {
      for (const Named& n : p_.names_of(run)) p_.uses[at[n.tensor]++] = run;
    }
  }
};

}  // namespace

std::uint64_t stored_bytes(const wire::TraceTensor& tensor, const CodecCost& codec) {
  if (codec.one_bit) {
    const std::uint64_t bits = one_bit_bytes(tensor);
    return bits == 0 ? tensor.bytes : bits;
  }
  const auto bytes = static_cast<double>(tensor.bytes);
  const double kept = codec.drops_zeros ? bytes * (1 - tensor.sparsity.value_or(0)) * codec.stored_share +
                                              bytes * codec.overhead_share
                                        : bytes * codec.stored_share;
  return static_cast<std::uint64_t>(std::ceil(kept));
}

Result<Program> make_program(const wire::Trace& trace, const Machine& machine,
                             const wire::Schedule& schedule) {
  return Builder(trace, machine, schedule).build();
}

}  // namespace terrace::planner
