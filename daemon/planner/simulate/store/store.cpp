#include "daemon/planner/simulate/store/store.h"

#include <algorithm>
#include <limits>

namespace terrace::planner {

Store::Store(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule,
             const Program& program, Victims rule)
    : trace_(trace),
      machine_(machine),
      program_(program),
      rule_(rule),
      network_(machine),
      victims_(trace.tensors.size()),
      states_(trace.tensors.size()),
      keys_(trace.tensors.size(), 0),
      lanes_(schedule, program),
      recording_(network_, trace.tensors.size()),
      room_(machine, recording_),
      copies_(trace, states_, room_, recording_),
      stages_(machine, states_, room_, copies_, network_, recording_) {}

void Store::place_at_start(std::uint32_t tensor, std::uint32_t tier) {
  TensorState& s = states_[tensor];
  s.place = tier == 0 ? Place::here : Place::away;
  s.tier = tier;
  s.stored = bytes(tensor);
  room_.take(tier, bytes(tensor), tensor);
}

// Asking for the opposite of what waits is how it is called off: the executor does it, in its queue.
void Store::evict(std::uint32_t node, std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec,
                  std::uint64_t stored) {
  TensorState& s = states_[tensor];
  if (s.queued_in) {
    lanes_.ask(lane_of(tier, false), node, {tensor, tier, codec, stored, now_us()}, false);
    call_off(tensor);
  }
  const bool in_reach = s.place == Place::here || s.place == Place::coming;
  if (!in_reach || s.queued_out || !moves(tensor)) return;
  s.queued_out = true;
  s.asked_by = node;
  s.asked_on_demand = lanes_.is_on_demand(node);
  s.asked_tier = tier;
  s.asked = stored;
  s.asked_codec = codec;
  room_.leave(frees(tensor));
  victims_.remove(tensor);
  if (copies_.clean_in(tensor, tier)) {
    copies_.ask(tensor);
  } else {
    queue_out(tensor);
  }
}

void Store::queue_out(std::uint32_t tensor) {
  const TensorState& s = states_[tensor];
  room_.ask(s.asked_tier, s.asked);
  lanes_.ask(lane_of(s.asked_tier, false), s.asked_by,
             {tensor, s.asked_tier, s.asked_codec, s.asked, now_us()}, false);
}

Lanes::Asked Store::ask_in(std::uint32_t node, std::uint32_t tensor, std::uint32_t tier) {
  const TensorState& s = states_[tensor];
  return lanes_.ask(lane_of(tier, true), node, {tensor, tier, s.codec, s.stored, now_us()},
                    rule_ != Victims::none);
}

void Store::fetch(std::uint32_t node, std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (s.queued_out) {
    if (!s.asked_clean) ask_in(node, tensor, s.asked_tier);
    call_off(tensor);
    return;
  }
  if (s.queued_in || (s.place != Place::away && s.place != Place::leaving)) return;
  stages_.call_off(tensor);
  s.queued_in = true;
  s.asked_on_demand = lanes_.is_on_demand(node);
  ask_in(node, tensor, s.aside ? s.aside_tier : s.tier);
}

bool Store::stage(std::uint32_t tensor, std::uint32_t tier) {
  const TensorState& s = states_[tensor];
  const bool leaves = s.queued_out || s.place == Place::leaving || s.place == Place::away;
  if (!leaves || s.queued_in || !moves(tensor)) return true;
  return stages_.ask(tensor, tier);
}

void Store::call_off(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (s.queued_out) {
    if (!s.asked_clean) room_.unask(s.asked_tier, s.asked);
    room_.end_leaving(frees(tensor));
  }
  copies_.call_off(tensor);
  lanes_.call_off(tensor);
  stages_.call_off(tensor);
  s.queued_in = s.queued_out = false;
  offer(tensor);
}

bool Store::call_off_blocked() {
  bool any = false;
  for (std::uint32_t lane = 0; lane < network_.lanes() && !stages_.is_far(lane); lane += 2) {
    lanes_.for_waiting(lane, [&](const Lanes::Request& r) {
      if (room_.fits_without_copies(r.tier, r.stored)) return;
      call_off(r.tensor);
      any = true;
    });
  }
  return any;
}

void Store::stay(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  const std::uint32_t lane = lane_of(s.tier, false);
  lanes_.record(lane, false, true, now_us(), &recording_);
  network_.abort(lane);
  lanes_.abort(lane);
  if (s.queued_in) call_off(tensor);
  stages_.call_off(tensor);
  room_.give(s.tier, s.stored, tensor);
  room_.end_leaving(bytes(tensor));
  s.codec = s.coded ? s.codec : no_codec;
  s.place = Place::here;
}

void Store::release(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (s.place == Place::leaving) stay(tensor);
  if (s.queued_in || s.queued_out) call_off(tensor);
  if (s.place == Place::coming) {
    const std::uint32_t lane = lane_of(s.tier, true);
    lanes_.record(lane, true, true, now_us(), &recording_);
    network_.abort(lane);
    lanes_.abort(lane);
    room_.give(s.tier, s.stored, tensor);
    room_.give(0, bytes(tensor), tensor);
  }
  copies_.forget(tensor);
  stages_.call_off(tensor);
  stages_.abort(tensor);
  if (s.place == Place::here || s.departed) room_.give(0, bytes(tensor), tensor);
  if (s.place == Place::away) room_.give(s.tier, s.stored, tensor);
  victims_.remove(tensor);
  executor().forget(tensor);
  const bool pinned = s.pinned;
  const bool written = s.written;
  s = {};
  s.pinned = pinned;
  s.written = written;
}

void Store::take(std::uint32_t tensor) {
  states_[tensor].place = Place::here;
  if (rule_ == Victims::fifo) keys_[tensor] = ++clock_;
  room_.take(0, bytes(tensor), tensor);
}

void Store::pin(std::uint32_t tensor, bool writes) {
  states_[tensor].pinned = true;
  states_[tensor].written = writes;
  victims_.remove(tensor);
}

void Store::unpin(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  s.pinned = s.written = s.needed = false;
  if (s.departed) room_.give(0, bytes(tensor), tensor);
  s.departed = false;
  if (s.asked_clean && s.place == Place::here && !s.copied) {  // written: its copy is of old content
    s.asked_clean = false;
    s.asked = bytes(tensor);
    s.asked_codec = no_codec;
    queue_out(tensor);
  }
}

void Store::need(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (s.needed) return;
  s.needed = true;
  room_.reserve(bytes(tensor));
  if (rule_ == Victims::none || !s.queued_in) return;
  lanes_.hurry(tensor, now_us());  // a prefetch that waits overtakes, and still counts as scheduled
}

// While it is asked for, the memory that the coded form will take inside tier 0 is still to come. A form may
// be larger than what it is of: then tier 0 gains nothing.
std::uint64_t Store::frees(std::uint32_t tensor) const {
  const TensorState& s = states_[tensor];
  const std::uint64_t stays = s.queued_out && room_.is_inside(s.asked_tier) ? s.asked : 0;
  return bytes(tensor) - std::min(stays, bytes(tensor));
}

std::uint32_t Store::tier_with_room(std::uint64_t bytes) const {
  for (std::uint32_t tier = 1; tier < room_.used().size(); ++tier) {
    const bool outside = program_.route_of_tier[tier] != no_run && !room_.is_inside(tier);
    if (outside && room_.fits_beside_asked(tier, bytes)) return tier;
  }
  return 0;
}

void Store::touch(std::uint32_t tensor, std::int64_t belady_key) {
  if (rule_ == Victims::lru) keys_[tensor] = ++clock_;
  if (rule_ == Victims::belady) keys_[tensor] = belady_key;
  offer(tensor);
}

void Store::offer(std::uint32_t tensor) {
  const TensorState& s = states_[tensor];
  if (rule_ == Victims::none || s.place != Place::here || s.pinned || s.queued_out || !moves(tensor)) return;
  victims_.put(tensor, keys_[tensor]);
}

bool Store::can_start(const Lanes::Request& request, bool in) const {
  const TensorState& s = states_[request.tensor];
  if (!in)
    return s.place == Place::here && !s.written && room_.fits_without_copies(request.tier, request.stored);
  if (s.place != Place::away || s.departed || s.aside) return false;
  const std::uint64_t kept = s.needed ? 0 : room_.reserved();
  return room_.free_bytes() >= kept && room_.free_bytes() - kept >= bytes(request.tensor);
}

void Store::start_ready() {
  copies_.settle(now_us());
  for (std::uint32_t lane = 0; lane < network_.lanes() && !stages_.is_far(lane); ++lane) {
    if (network_.busy(lane)) continue;
    const bool in = lane % 2 == 1;
    const Lanes::Request* next = lanes_.front(lane);
    if (next != nullptr && can_start(*next, in)) start(lane, in);
  }
  stages_.start_ready(lanes_.starts());
  recording_.sample(now_us(), room_.used());
}

void Store::start(std::uint32_t lane, bool in) {
  const Lanes::Request& request = lanes_.start(lane, now_us());
  TensorState& s = states_[request.tensor];
  if (!in) {
    copies_.replaced(request.tensor, now_us());
    copies_.give_way(request.tier, request.stored, now_us());
    room_.leave(bytes(request.tensor) - frees(request.tensor));
  }
  s.queued_in = s.queued_out = false;
  s.on_demand = lanes_.started_on_demand(lane);
  s.tier = request.tier;
  s.codec = request.codec;
  s.stored = request.stored;
  s.place = in ? Place::coming : Place::leaving;
  if (in) {
    room_.take(0, bytes(request.tensor), request.tensor);
    if (s.needed) room_.unreserve(bytes(request.tensor));
    s.needed = false;
  } else {
    room_.unask(request.tier, request.stored);
    room_.take(request.tier, request.stored, request.tensor);
  }
  network_.start(lane, request.stored, most_rate(request, in));
}

// Of stored bytes for each µs, by a codec that works while they move.
double Store::most_rate(const Lanes::Request& request, bool in) const {
  if (request.codec == no_codec || works_in_the_way(request.codec))
    return std::numeric_limits<double>::infinity();
  const CodecCost& codec = machine_.codecs[request.codec];
  const double content = in ? codec.decompress_bytes_per_second : codec.compress_bytes_per_second;
  return content / 1e6 * static_cast<double>(request.stored) / static_cast<double>(bytes(request.tensor));
}

void Store::advance(double time_us) {
  ended_.clear();
  network_.advance(time_us, &ended_);
  for (const std::uint32_t lane : ended_) finish(lane);
  if (!ended_.empty()) start_ready();
}

void Store::finish(std::uint32_t lane) {
  if (stages_.is_far(lane)) return stages_.finish(lane);
  const bool in = lane % 2 == 1;
  lanes_.record(lane, in, false, now_us(), &recording_);
  lanes_.done(lane);
  const std::uint32_t tensor = lanes_.under_way(lane).tensor;
  if (in) {
    arrived(tensor);
  } else {
    left(tensor);
  }
}

void Store::arrived(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  s.place = Place::here;
  if (room_.is_inside(s.tier)) {
    room_.give(s.tier, s.stored, tensor);
  } else {
    copies_.arrived(tensor);
  }
  s.coded = works_in_the_way(s.codec);
  if (rule_ == Victims::lru || rule_ == Victims::fifo) keys_[tensor] = ++clock_;
  offer(tensor);
}

void Store::left(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  s.place = Place::away;
  s.coded = false;
  room_.end_leaving(bytes(tensor));
  if (s.pinned && !s.written) {
    s.departed = true;
  } else {
    room_.give(0, bytes(tensor), tensor);
  }
}

void Store::begin_report(bool record_timeline) {
  room_.begin_report();
  network_.reset_use();
  recording_.begin(now_us(), record_timeline);
  for (std::uint32_t t = 0; t < states_.size() && record_timeline; ++t) {
    const TensorState& s = states_[t];
    if (s.place == Place::nowhere) continue;
    const bool far = s.place == Place::away || s.place == Place::coming;
    if (s.place != Place::away) recording_.lay(t, false, bytes(t));
    if (s.place != Place::here && room_.is_inside(s.tier)) recording_.lay(t, true, s.stored);
    const bool packed = s.coded || (s.place == Place::leaving && works_in_the_way(s.codec));
    const std::uint64_t form = s.queued_out && works_in_the_way(s.asked_codec) ? s.asked
                               : packed                                        ? s.stored
                                                                               : bytes(t);
    recording_.start(
        {t, far ? s.tier : 0, far ? s.stored : form, s.copied ? s.tier : 0, s.copied ? s.stored : 0});
  }
  recording_.sample(now_us(), room_.used());
}

void Store::record_end(std::uint32_t lane) {
  if (stages_.is_far(lane)) return stages_.record(lane, false);
  lanes_.record(lane, Network::is_in(lane), false, now_us(), &recording_);
}

// What is under way is followed to its end, with nothing new beginning, for the transfers' end times.
void Store::end_report(SimulationReport* report) {
  report->links = network_.use();
  report->tier_peak_bytes = room_.peak();
  if (!recording_.on()) return;
  recording_.sample(now_us(), room_.used());
  while (network_.next_us() < std::numeric_limits<double>::infinity()) {
    ended_.clear();
    network_.advance(network_.next_us(), &ended_);
    for (const std::uint32_t lane : ended_) record_end(lane);
  }
  recording_.end(report);
}

}  // namespace terrace::planner
