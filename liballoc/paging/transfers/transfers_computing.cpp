// What is computed of whole runs: the sums of what leaves, which say what of it must be written; compressing
// it, where that pays; and the check of what was read, or its decompressing.
//
// A worker that computes is to an operation what the device is: the run may go its own way meanwhile, and the
// frame stays the operation's until the job is back. Nothing of the run changes before that, so that a write
// whose run has come back by then is called off without a trace. Single pages (pieces) are checked at once.
#include "liballoc/base/os.h"
#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {
namespace {

// A refused write would be summed again and again.
constexpr std::uint64_t refused_pause_ns = 1'000'000;

}  // namespace

// False: a write that could not begin.
bool Transfers::compute(TierOperation* op, Job::Kind kind) {
  Job& job = parts_.operations.job_of(*op);
  job.kind = kind;
  if (workers_ != nullptr && workers_->are_there()) {
    op->is_computed = true;
    workers_->give(job);
    return true;
  }
  job.work(parts_.codec.scratch());
  return computed(op);
}

void Transfers::take_results() {
  if (workers_ == nullptr || !workers_->has_results()) return;
  for (TierOperation& op : parts_.operations.all()) {
    if (!op.is_computed || !parts_.operations.job_of(op).is_done.load(std::memory_order_acquire)) continue;
    workers_->took_back();
    op.is_computed = false;
    if (!computed(&op)) next_write_ns_ = os::now_ns() + refused_pause_ns;
  }
}

bool Transfers::computed(TierOperation* op) {
  if (op->is_write())
    return parts_.operations.job_of(*op).kind == Job::Kind::encode ? encoded(op) : summed(op);
  checked(op);
  return true;
}

bool Transfers::sum(TierOperation* op, const PageSet& pages) {
  Job& job = parts_.operations.job_of(*op);
  job.data = op->data;
  job.pages = pages;
  job.is_timed = parts_.codec.is_on() && op->is_write() && pages.is_all();
  return compute(op, Job::Kind::sum);
}

// ---- out --------------------------------------------------------------------------------------------------

bool Transfers::may_sum_one_more() {
  if (next_write_ns_ != 0 && os::now_ns() < next_write_ns_) return false;
  next_write_ns_ = 0;
  return !parts_.codec.is_on() || parts_.codec.free_buffers() > parts_.operations.undecided_writes();
}

bool Transfers::summed(TierOperation* op) {
  const std::uint32_t n = op->run;
  if (n == none || parts_.runs[n].state != RunState::writing) return call_off(op);
  const Job& job = parts_.operations.job_of(*op);
  if (job.is_timed) parts_.codec.summed(job.sum_ns);
  const PageSet& there = parts_.runs.pages(n).in_frame;
  op->zeroes = needless(n, job.zeroes);
  op->dirty = parts_.runs.sums().take_dirty(n, job.sums, there, op->zeroes);
  parts_.runs[n].was_dirty = !op->dirty.is_empty();
  if (op->dirty.is_empty() && is_to_come_in_pages(*op)) op->dirty = there - op->zeroes;
  if (op->dirty.is_empty()) return end_unwritten(op);
  return may_be_compressed(*op) ? encode(op) : write_into(op);
}

// Those of `zeroes` that are not written. A compressed run keeps all of its pages, or none.
PageSet Transfers::needless(std::uint32_t n, const PageSet& zeroes) const {
  const Run& r = parts_.runs[n];
  const Pages& p = parts_.runs.pages(n);
  const bool is_compressed = r.has_slot && r.slot_bytes != run_bytes;
  const bool is_all = (p.in_frame - zeroes).is_empty() && p.away().is_empty();
  return !is_compressed || is_all ? zeroes & p.in_frame : PageSet{};
}

// Compressed, it would come back as a whole only.
bool Transfers::may_be_compressed(const TierOperation& op) {
  const Run& r = parts_.runs[op.run];
  const bool has_pages_extent = r.has_slot && r.slot_bytes == run_bytes;
  const bool are_few = has_pages_extent && op.dirty.count() <= pages_per_run / 2;
  const bool is_scattered =
      r.scattered || parts_.blocks.is_scattered(r.block) || parts_.blocks.is_sparse(r.block);
  const bool may_be = parts_.codec.is_on() && parts_.runs.pages(op.run).in_frame.is_all() && !is_scattered &&
                      !are_few && !is_left_to_be_tried(op.run);
  if (!may_be || !parts_.frame_returns.rests()) return may_be;
  parts_.frame_returns.left_as_it_is();
  return false;
}

// Only a run that can come in pages shows how many of its block's are used (policy/trial.h): one in sixteen
// stays as it is where that matters.
bool Transfers::is_left_to_be_tried(std::uint32_t n) const {
  constexpr std::uint32_t one_in = 16;
  return n % one_in == 0 && !parts_.blocks.is_small(parts_.runs[n].block, parts_.budget.pages());
}

// It was compressed before few pages of its runs were known to be used.
bool Transfers::is_to_come_in_pages(const TierOperation& op) const {
  const Run& r = parts_.runs[op.run];
  const bool is_compressed = r.has_slot && r.slot_bytes != run_bytes;
  return is_compressed && parts_.blocks.is_sparse(r.block) && parts_.runs.pages(op.run).in_frame.is_all();
}

bool Transfers::encode(TierOperation* op) {
  RunEncoding& encoding = parts_.operations.job_of(*op).encoding;
  op->generation = ++generation_;
  const bool may_be_kept = parts_.extents.has_room_in_dram();
  if (!parts_.codec.begin_encoding(op->data, op->run, generation_, may_be_kept, &encoding)) {
    parts_.runs[op->run].shrinks = false;
    return write_into(op);
  }
  return compute(op, Job::Kind::encode);
}

bool Transfers::encoded(TierOperation* op) {
  const RunEncoding& encoding = parts_.operations.job_of(*op).encoding;
  const bool is_smaller = parts_.codec.end_encoding(encoding);
  if (is_smaller) op->buffer = encoding.number;
  parts_.codec.publish_counts();
  const std::uint32_t n = op->run;
  if (n != none) parts_.runs[n].shrinks = is_smaller && encoding.bytes <= RunFrame::most_kept_bytes;
  if (n == none || parts_.runs[n].state != RunState::writing) return call_off(op);
  if (parts_.runs.pages(n).in_frame.is_empty()) return end_unwritten(op);
  if (op->buffer != RunCodec::no_buffer) {
    op->data = encoding.buffer;
    op->sum = encoding.sum;
    op->slot_bytes = encoding.bytes;
    if (parts_.runs[n].shrinks && parts_.extents.has_room_in_dram()) parts_.frames.free_one();
  }
  return write_into(op);
}

// The run has come back before anything of it was written, or is nobody's any more.
bool Transfers::call_off(TierOperation* op) {
  const std::uint32_t n = op->run;
  tidy(op);
  if (n == none) return true;
  parts_.runs[n].in_flight = false;
  mover_->wake(parts_.runs.address(n), run_bytes);  // who waited for its end asks again
  return true;
}

// The tier has all that is in the frame but zeroes.
bool Transfers::end_unwritten(TierOperation* op) {
  const std::uint32_t n = op->run;
  tidy(op);
  parts_.runs[n].in_flight = false;
  parts_.placement.end_leaving(n, parts_.standing.evicts());
  return true;
}

// ---- in ---------------------------------------------------------------------------------------------------

void Transfers::check(TierOperation* op) {
  if (!op->is_compressed()) {
    sum(op, op->pages & parts_.runs.pages(op->run).stored);
    return;
  }
  parts_.operations.job_of(*op).decoding = {
      .frame = op->data, .bytes = op->slot_bytes, .generation = op->generation, .sum = op->sum};
  compute(op, Job::Kind::decode);
}

void Transfers::checked(TierOperation* op) {
  if (op->run == none) return end_read(op, false);
  const Job& job = parts_.operations.job_of(*op);
  if (job.kind == Job::Kind::decode) {
    parts_.codec.end_decoding(job.decoding);
    parts_.codec.publish_counts();
    return end_read(op, job.decoding.is_intact);
  }
  const PageSet wanted = op->pages & parts_.runs.pages(op->run).stored;
  end_read(op, parts_.runs.sums().is_intact(op->run, job.sums, wanted));
}

void Transfers::end_read(TierOperation* op, bool intact) {
  if (op->run != none && !intact) {
    parts_.accounts.counts.checksum_failures += op->error == 0 && !op->retried ? 1 : 0;
    parts_.accounts.counts.io_errors += op->error != 0 && !op->retried ? 1 : 0;
    if (read_again(op)) return;
  }
  switch (op->kind) {
    case TierOperation::Kind::fill:
      return finish_fill(op, intact);
    case TierOperation::Kind::piece:
      return finish_piece(op, intact);
    default:
      return finish_read(op, intact);
  }
}

}  // namespace terrace::liballoc
