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
// Between steps states move so much at a time, so long at once: whoever calls meanwhile waits for one part.
constexpr std::uint64_t aside_bytes = std::uint64_t{32} << 20;
constexpr std::uint64_t aside_ns = 1'000'000'000;

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

// Whoever calls goes before the session's thread, which looks whether somebody does.
class Optimizer::Hold {
 public:
  explicit Hold(Optimizer& optimizer) : optimizer_(optimizer) {
    ++optimizer_.callers_;
    optimizer_.mutex_.lock();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    optimizer_.mutex_.unlock();
    --optimizer_.callers_;
  }

 private:
  Optimizer& optimizer_;
};

Optimizer::~Optimizer() { share_.stop(); }

int Optimizer::open(const terrace_optimizer_config& config, std::unique_ptr<Optimizer>* out,
                    std::string* reason) {
  if (const int error = check_config(config, reason); error != 0) return error;
  std::unique_ptr<Optimizer> optimizer(new Optimizer);
  try {
    if (const int error = optimizer->open_parts(config, reason); error != 0) return error;
  } catch (const std::system_error&) {
    *reason = "no thread could be started: ask for fewer, or raise the limit of ulimit -u";
    return EAGAIN;
  }
  *out = std::move(optimizer);
  return 0;
}

int Optimizer::open_parts(const terrace_optimizer_config& config, std::string* reason) {
  if (const int error = share_.open(config, reason); error != 0) return error;
  warning_ = share_.warning();
  const Drive::Granted pool = share_.pool();
  lives_on_drive_ = config.nvme_bytes != 0 && !share_.forbids_drive();
  if (lives_on_drive_ || pool.fd >= 0) {
    drive_ = std::make_unique<Drive>();
    if (const int error = drive_->open(config, pool, reason); error != 0) return error;
    if (warning_.empty()) warning_ = drive_->warning();
  }
  workers_ = std::make_unique<Workers>(threads_for(config.threads));
  staging_bytes_ = config.staging_bytes != 0 ? config.staging_bytes : Stream::usual_bytes;
  stream_ = std::make_unique<Stream>(drive_.get(), &memory_, workers_.get(), staging_bytes_);
  if (drive_ != nullptr) placement_ = std::make_unique<Placement>(drive_.get(), &memory_, workers_.get());
  open_path();
  share_.start(
      drive_.get(), [this] { return report(); }, [this] { settle_aside(); });
  return 0;
}

void Optimizer::open_path() {
  path_ = std::string(kernels().name) + " on " + std::to_string(workers_->threads()) +
          (workers_->threads() == 1 ? " thread" : " threads") + ", states ";
  if (lives_on_drive_)
    path_ += drive_->path();
  else
    path_ += drive_ == nullptr ? "in DRAM"
                               : "in DRAM, and beyond the DRAM that the daemon grants " + drive_->path();
}

int Optimizer::add(std::uint64_t elements, unsigned planes, std::uint64_t* id, std::string* reason) {
  if (elements == 0 || elements > std::uint64_t{1} << 40 || planes == 0 || planes > max_planes) {
    *reason = "a parameter of " + std::to_string(elements) + " elements and " + std::to_string(planes) +
              " planes: it must have 1 to 2^40 elements and 1 to 4 planes";
    return EINVAL;
  }
  const Hold hold(*this);
  auto& shelf = shelves_[planes - 1];
  if (shelf == nullptr) shelf = std::make_unique<Shelf>(planes);
  Parameter parameter{.shelf = shelf.get(), .elements = elements};
  parameters_.reserve(parameters_.size() + 1);
  std::vector<Block*> blocks;
  blocks.reserve(next_block_ + shelf->blocks_for(elements));
  const std::uint64_t bytes = shelf->bytes_for(elements);
  const std::uint64_t dram = dram_for(state_bytes_ + bytes);
  const Room room{.memory = &memory_,
                  .drive = drive_.get(),
                  .lives_on_drive = lives_on_drive_,
                  .dram_bytes = dram - std::min(dram, memory_.bytes())};
  const int error = shelf->add(elements, room, &next_block_, &parameter.first);
  if (error != 0) {
    *reason = std::string(drive_ != nullptr ? "the drive has" : "host memory has") + " no room for " +
              std::to_string(elements * planes * sizeof(float)) + " bytes of states: " + std::strerror(error);
    return error;
  }
  parameters_.push_back(parameter);
  elements_ += elements;
  state_bytes_ += bytes;
  if (placement_ != nullptr) placement_->follow(all_blocks(std::move(blocks)));
  *id = parameters_.size();
  return 0;
}

// In the order in which steps visit them; `blocks` is empty, and has room for all.
std::vector<Block*> Optimizer::all_blocks(std::vector<Block*> blocks) {
  for (const auto& shelf : shelves_)
    if (shelf != nullptr) shelf->append_blocks(&blocks);
  return blocks;
}

// Of a grant. States that have to pass through slots get a quarter of it, and one slot at least.
std::uint64_t Optimizer::staging_for(std::uint64_t limit_bytes) const {
  const std::uint64_t part = lives_on_drive_ ? limit_bytes : limit_bytes / 4;
  return std::max(Stream::slot_bytes, std::min(part, staging_bytes_));
}

// How much host memory blocks of so many bytes may take: all, where they fit into the grant.
std::uint64_t Optimizer::dram_for(std::uint64_t state_bytes) const {
  if (lives_on_drive_) return 0;
  const std::uint64_t limit = share_.limit_bytes();
  if (drive_ == nullptr || state_bytes <= limit) return state_bytes;
  return limit - std::min(limit, staging_for(limit));
}

void Optimizer::fit_staging() {
  if (share_.has_grant()) stream_->set_staging(staging_for(share_.limit_bytes()));
}

// Without a grant everything stays where it is. True: there is more to move.
bool Optimizer::settle(std::uint64_t most_bytes) {
  if (share_.take_trim()) stream_->give_back_staging();
  if (placement_ == nullptr || !share_.has_grant()) return false;
  const std::uint64_t grant = share_.grants();
  fit_staging();
  if (grant == failed_grant_) return false;
  const std::uint64_t dram = dram_for(state_bytes_);
  const bool more = placement_->settle(dram, most_bytes);
  moving_warning_.clear();
  if (placement_->error() != 0) {
    failed_grant_ = grant;
    moving_warning_ = std::string("states cannot move to where the daemon has room for them (") +
                      std::strerror(placement_->error()) + "): " + std::to_string(memory_.bytes() >> 20) +
                      " MiB are in DRAM, of " + std::to_string(dram >> 20) + " MiB that they may take";
  }
  if (dram == state_bytes_) stream_->give_back_staging();
  return more;
}

// By the session's thread, for a second at most and as long as nobody calls.
void Optimizer::settle_aside() {
  const std::uint64_t end_ns = os::now_ns() + aside_ns;
  for (bool more = true; more && callers_ == 0 && os::now_ns() < end_ns;) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    more = settle(aside_bytes);
  }
}

offload::Report Optimizer::report() {
  const std::uint64_t memory = memory_.bytes() + stream_->staging_bytes();
  const std::uint64_t streaming = std::max(stream_->staging_bytes(), staging_bytes_);
  reported_peak_bytes_ = std::max(reported_peak_bytes_, memory);
  offload::Report report{
      .memory_bytes = memory,
      .memory_peak_bytes = reported_peak_bytes_,
      .spare_memory_bytes = stream_->spare_bytes(),
      .wanted_memory_bytes = lives_on_drive_ ? memory_.bytes() + streaming : state_bytes_.load(),
      .memory_limit_bytes = share_.limit_bytes(),
      .checksum_failures = stream_->checksum_failures()};
  if (drive_ == nullptr) return report;
  report.drive_bytes = drive_->used_bytes();
  report.drive_written_bytes = drive_->written_bytes();
  report.drive_read_bytes = drive_->read_bytes();
  report.drive_speeds = drive_->speeds();
  report.io_errors = drive_->io_errors();
  return report;
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
  const Hold hold(*this);
  const Parameter& parameter = parameters_[id - 1];
  parameter.shelf->append_parts(parameter.first, parameter.elements, 0, &work.plan.parts);
  work.plan.order();
  std::size_t failed = 0, slice = 0;
  fit_staging();
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
  const Hold hold(*this);
  Step work(updates, count, flow);
  std::size_t culprit = 0;
  if (const int error = prepare(&work, &culprit, reason); error != 0) {
    *failed = culprit;
    return error;
  }
  for (std::size_t i = 0; i < count; ++i) work.update(i).done_elements = 0;
  const std::uint64_t begin = os::now_ns();
  fit_staging();
  std::size_t visit = 0, slice = 0;
  const int error =
      stream_->run(work.plan.blocks, true, flow != nullptr ? 1 : blocks_together, work, &visit, &slice);
  failed_grant_ = 0;  // tried again once in a step
  settle(~std::uint64_t{0});
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
  out.dram_bytes = memory_.bytes();
  if (share_.has_grant()) out.dram_limit_bytes = share_.limit_bytes();
  out.staging_bytes = stream_->staging_bytes();
  out.checksum_failures = stream_->checksum_failures();
  return out;
}

const char* Optimizer::warning() {
  const Hold hold(*this);
  told_warning_ = !stream_->warning().empty() ? stream_->warning()
                  : !moving_warning_.empty()  ? moving_warning_
                                              : warning_;
  return told_warning_.c_str();
}

}  // namespace terrace::liballoc::optimizer
