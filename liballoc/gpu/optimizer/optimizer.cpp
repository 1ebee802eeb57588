#include "liballoc/gpu/optimizer/optimizer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <tuple>

#include "liballoc/base/os.h"

namespace terrace::liballoc::optimizer {
namespace {

constexpr std::size_t type_bytes[number_types] = {4, 2, 2};
// In DRAM nothing is gained by going block by block: so many are shared out at once.
constexpr std::size_t blocks_together = 64;

// Parts in the order of their blocks and slices, and where each block's begin.
struct Plan {
  std::vector<Part> parts;
  std::vector<Block*> blocks;
  std::vector<std::size_t> begins;  // of blocks[i] in parts; one more at the end

  void order() {
    std::ranges::sort(parts, {}, [](const Part& part) {
      return std::tuple(part.block->planes, part.block->number, part.slice, part.offset);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!blocks.empty() && blocks.back() == parts[i].block) continue;
      blocks.push_back(parts[i].block);
      begins.push_back(i);
    }
    begins.push_back(parts.size());
  }
  std::span<const Part> of(std::size_t visit) const {
    return std::span(parts).subspan(begins[visit], begins[visit + 1] - begins[visit]);
  }
  std::span<const Part> of(std::size_t visit, std::size_t slice) const {
    const std::span<const Part> all = of(visit);
    const auto before = [](const Part& part, std::size_t number) { return part.slice < number; };
    const auto begin = std::lower_bound(all.begin(), all.end(), slice, before);
    return {begin, std::lower_bound(begin, all.end(), slice + 1, before)};
  }
};

unsigned threads_for(unsigned asked) {
  return asked != 0 ? asked : std::clamp(std::thread::hardware_concurrency(), 1U, Workers::most_threads);
}

int check_config(const terrace_optimizer_config& config, std::string* reason) {
  if (config.size < sizeof(config))
    *reason = "the configuration's size is " + std::to_string(config.size) + " bytes: this library's has " +
              std::to_string(sizeof(config));
  else if (config.threads > Workers::most_threads)
    *reason = "threads is " + std::to_string(config.threads) + ": 256 are the most";
  else if (config.staging_bytes != 0 && config.staging_bytes < Stream::least_bytes)
    *reason = "staging_bytes is " + std::to_string(config.staging_bytes) + ": at least 16 MiB are needed";
  return reason->empty() ? 0 : EINVAL;
}

}  // namespace

// One step of the stream over the planned blocks: kernels on the parts, and the caller's callbacks.
struct Optimizer::Step final : Stream::Work {
  Step(terrace_optimizer_update* updates_, std::size_t count_, const terrace_optimizer_flow* flow_)
      : updates(reinterpret_cast<std::byte*>(updates_)),
        size(count_ == 0 ? 0 : updates_->size),
        count(count_),
        flow(flow_),
        rules(count_),
        begun(count_) {}

  // Callers of an older header have shorter structs; `size` is theirs.
  terrace_optimizer_update& update(std::size_t i) const {
    return *reinterpret_cast<terrace_optimizer_update*>(updates + i * size);
  }

  int begin(std::size_t visit) override {
    if (flow == nullptr || flow->ready == nullptr) return 0;
    for (const Part& part : plan.of(visit)) {
      if (begun[part.owner]) continue;
      if (const int error = flow->ready(flow->context, part.owner); error != 0) return std::abs(error);
      begun[part.owner] = true;
    }
    return 0;
  }

  void slice(std::size_t visit, std::size_t slice, std::byte* content) override {
    for (const Part& part : plan.of(visit, slice)) {
      const terrace_optimizer_update& to = update(part.owner);
      const auto parameter = static_cast<unsigned>(to.parameter_type);
      const auto gradient = static_cast<unsigned>(to.gradient_type);
      Piece piece{.elements = part.elements,
                  .parameter = static_cast<std::byte*>(to.parameter) + part.at * type_bytes[parameter],
                  .gradient = static_cast<const std::byte*>(to.gradient) + part.at * type_bytes[gradient]};
      for (unsigned k = 0; k < part.block->planes; ++k) piece.planes[k] = part.plane(content, k);
      const Rule& rule = rules[part.owner];
      set.update(rule, parameter, gradient)(rule, piece);
    }
  }

  void end(std::size_t visit) override {
    for (const Part& part : plan.of(visit)) {
      terrace_optimizer_update& to = update(part.owner);
      to.done_elements += part.elements;
      if (to.done_elements == elements[part.owner] && flow != nullptr && flow->done != nullptr)
        flow->done(flow->context, part.owner);
    }
  }

  std::byte* updates;
  std::size_t size, count;
  const terrace_optimizer_flow* flow;
  std::vector<Rule> rules;
  std::vector<bool> begun;
  std::vector<std::uint64_t> elements;
  Plan plan;
  const Kernels& set = kernels();
};

// Between a parameter's planes and the caller's arrays.
struct Optimizer::Copy final : Stream::Work {
  void slice(std::size_t visit, std::size_t slice, std::byte* content) override {
    for (const Part& part : plan.of(visit, slice))
      for (unsigned k = 0; k < part.block->planes; ++k) {
        const std::size_t bytes = part.elements * sizeof(float);
        if (to != nullptr && to[k] != nullptr) std::memcpy(to[k] + part.at, part.plane(content, k), bytes);
        if (from != nullptr && from[k] != nullptr)
          std::memcpy(part.plane(content, k), from[k] + part.at, bytes);
      }
  }

  float* const* to = nullptr;
  const float* const* from = nullptr;
  Plan plan;
};

Optimizer::Optimizer(std::unique_ptr<Workers> workers, std::uint64_t staging_bytes,
                     std::unique_ptr<Drive> drive)
    : workers_(std::move(workers)),
      stream_(std::make_unique<Stream>(drive.get(), workers_.get(), staging_bytes)),
      drive_(std::move(drive)) {
  path_ = std::string(kernels().name) + " on " + std::to_string(workers_->threads()) +
          (workers_->threads() == 1 ? " thread" : " threads") + ", states " +
          (drive_ != nullptr ? drive_->path() : "in DRAM");
}

int Optimizer::open(const terrace_optimizer_config& config, std::unique_ptr<Optimizer>* out,
                    std::string* reason) {
  if (const int error = check_config(config, reason); error != 0) return error;
  std::unique_ptr<Drive> drive;
  if (config.nvme_bytes != 0) {
    drive = std::make_unique<Drive>();
    if (const int error = drive->open(config, reason); error != 0) return error;
  }
  std::unique_ptr<Workers> workers;
  try {
    workers = std::make_unique<Workers>(threads_for(config.threads));
  } catch (const std::system_error&) {
    *reason = "no thread could be started: ask for fewer, or raise the limit of ulimit -u";
    return EAGAIN;
  }
  const std::uint64_t staging = config.staging_bytes != 0 ? config.staging_bytes : Stream::usual_bytes;
  out->reset(new Optimizer(std::move(workers), staging, std::move(drive)));
  return 0;
}

int Optimizer::add(std::uint64_t elements, unsigned planes, std::uint64_t* id, std::string* reason) {
  if (elements == 0 || elements > std::uint64_t{1} << 40 || planes == 0 || planes > max_planes) {
    *reason = "a parameter of " + std::to_string(elements) + " elements and " + std::to_string(planes) +
              " planes: it must have 1 to 2^40 elements and 1 to 4 planes";
    return EINVAL;
  }
  auto& shelf = shelves_[planes - 1];
  if (shelf == nullptr) shelf = std::make_unique<Shelf>(planes);
  Parameter parameter{.shelf = shelf.get(), .elements = elements};
  parameters_.reserve(parameters_.size() + 1);
  const int error = shelf->add(elements, drive_.get(), &next_block_, &parameter.first);
  if (error != 0) {
    *reason = std::string(drive_ != nullptr ? "the drive has" : "host memory has") + " no room for " +
              std::to_string(elements * planes * sizeof(float)) + " bytes of states: " + std::strerror(error);
    return error;
  }
  parameters_.push_back(parameter);
  elements_ += elements;
  *id = parameters_.size();
  return 0;
}

void Optimizer::say_what_is_lost(int error, std::string* reason) {
  *reason = error == EBADMSG ? "stored states are damaged: their checksum does not fit"
                             : std::string("states cannot be streamed: ") + std::strerror(error);
}

int Optimizer::copy(std::uint64_t id, const Copy& prototype, bool writes, std::string* reason) {
  if (id == 0 || id > parameters_.size()) {
    *reason = "there is no parameter " + std::to_string(id);
    return ENOENT;
  }
  Copy work = prototype;
  const Parameter& parameter = parameters_[id - 1];
  parameter.shelf->append_parts(parameter.first, parameter.elements, 0, &work.plan.parts);
  work.plan.order();
  std::size_t failed = 0, slice = 0;
  const int error = stream_->run(work.plan.blocks, writes, blocks_together, work, &failed, &slice);
  if (error != 0) say_what_is_lost(error, reason);
  return error;
}

int Optimizer::read(std::uint64_t id, float* const* planes, std::string* reason) {
  Copy work;
  work.to = planes;
  return copy(id, work, false, reason);
}

int Optimizer::write(std::uint64_t id, const float* const* planes, std::string* reason) {
  Copy work;
  work.from = planes;
  return copy(id, work, true, reason);
}

int Optimizer::check(const terrace_optimizer_update& update, std::string* reason) const {
  if (update.id == 0 || update.id > parameters_.size()) {
    *reason = "there is no parameter " + std::to_string(update.id);
    return ENOENT;
  }
  const auto is_type = [](int type) { return type >= 0 && type < static_cast<int>(number_types); };
  if (!is_type(update.parameter_type) || !is_type(update.gradient_type) || update.rule == nullptr ||
      update.rule->size < sizeof(terrace_optimizer_rule)) {
    *reason = "an update needs types of terrace_optimizer_type, and a rule of this library's size";
    return EINVAL;
  }
  const unsigned planes = parameters_[update.id - 1].shelf->planes();
  const unsigned needed = states_of(*update.rule) + (update.parameter_type != TERRACE_OPTIMIZER_F32 ? 1 : 0);
  if (planes == needed) return 0;
  *reason = "parameter " + std::to_string(update.id) + " keeps " + std::to_string(planes) +
            " planes: this rule and type need " + std::to_string(needed);
  return EINVAL;
}

int Optimizer::prepare(Step* step, std::size_t* failed, std::string* reason) {
  std::vector<bool> seen(parameters_.size());
  for (std::size_t i = 0; i < step->count; ++i) {
    const terrace_optimizer_update& update = step->update(i);
    *failed = i;
    if (const int error = check(update, reason); error != 0) return error;
    if (step->flow == nullptr && (update.parameter == nullptr || update.gradient == nullptr)) {
      *reason = "an update's parameter and gradient must not be NULL";
      return EINVAL;
    }
    if (seen[update.id - 1]) {
      *reason = "parameter " + std::to_string(update.id) + " comes twice in one step";
      return EINVAL;
    }
    seen[update.id - 1] = true;
    if (const int error = make_rule(*update.rule, update.step, &step->rules[i], reason); error != 0)
      return error;
    const Parameter& parameter = parameters_[update.id - 1];
    step->elements.push_back(parameter.elements);
    parameter.shelf->append_parts(parameter.first, parameter.elements, i, &step->plan.parts);
  }
  step->plan.order();
  return 0;
}

int Optimizer::step(terrace_optimizer_update* updates, std::size_t count, const terrace_optimizer_flow* flow,
                    std::size_t* failed, std::string* reason) {
  if (count != 0 && (updates == nullptr || updates->size < sizeof(*updates))) {
    *reason = "updates are missing, or of another version's size";
    return EINVAL;
  }
  Step work(updates, count, flow);
  std::size_t culprit = 0;
  if (const int error = prepare(&work, &culprit, reason); error != 0) {
    *failed = culprit;
    return error;
  }
  for (std::size_t i = 0; i < count; ++i) work.update(i).done_elements = 0;
  const std::uint64_t begin = os::now_ns();
  std::size_t visit = 0, slice = 0;
  const int error =
      stream_->run(work.plan.blocks, true, flow != nullptr ? 1 : blocks_together, work, &visit, &slice);
  step_ns_ += os::now_ns() - begin;
  ++steps_;
  if (error == 0) return 0;
  const auto parts = work.plan.of(visit);
  const auto in_slice = work.plan.of(visit, slice);
  *failed = (error == EBADMSG && !in_slice.empty() ? in_slice : parts).front().owner;
  say_what_is_lost(error, reason);
  return error;
}

terrace_optimizer_statistics Optimizer::statistics() const {
  terrace_optimizer_statistics out{};
  out.size = sizeof(out);
  if (drive_ != nullptr) drive_->count(&out);
  out.parameters = parameters_.size();
  out.elements = elements_;
  out.steps = steps_;
  out.step_ns = step_ns_;
  out.dram_bytes = stream_->kept_bytes();
  for (const auto& shelf : shelves_)
    if (shelf != nullptr) out.dram_bytes += shelf->dram_bytes();
  out.staging_bytes = stream_->staging_bytes();
  out.checksum_failures = stream_->checksum_failures();
  return out;
}

const char* Optimizer::warning() const {
  if (!stream_->warning().empty()) return stream_->warning().c_str();
  return drive_ != nullptr ? drive_->warning().c_str() : "";
}

}  // namespace terrace::liballoc::optimizer
