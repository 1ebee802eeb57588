#include "liballoc/gpu/offload/codec/codec_choice.h"

#include <algorithm>

#include "liballoc/gpu/offload/codec/frame_rules.h"

namespace terrace::liballoc::offload {
namespace {

using compression::Codec;

constexpr double usual_link_ns = 0.05;  // 20 GB/s, until something has crossed

double share(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

// Follows within a few measurements and forgets one that was off.
void learn(double& known, double fresh) { known = known == 0 ? fresh : known + (fresh - known) / 4; }

}  // namespace

CodecChoice::CodecChoice(Runs codec) : codec_(codec), classes_(std::size_t{1} << class_slots_log2) {}

CodecChoice::Tried* CodecChoice::find(Class& of, Codec codec) {
  const auto found = std::find(candidates.begin(), candidates.end(), codec);
  return found == candidates.end() ? nullptr : &of.tried[found - candidates.begin()];
}

// A frame that is not kept costs the codec's time besides what raw does.
double CodecChoice::cost(const Tried& tried, double way_ns) const {
  if (tried.fraction > 15.0 / 16) return 2 * way_ns + tried.compress_ns;
  const double frame_ns = tried.fraction * way_ns;
  if (codec_ == Runs::in_its_place) return tried.compress_ns + tried.decompress_ns + 2 * frame_ns;
  return std::max(tried.compress_ns, frame_ns) + std::max(tried.decompress_ns, frame_ns);
}

Codec CodecChoice::choose(std::uint64_t tensor_class, bool pressed) {
  const std::lock_guard lock(mutex_);
  Class& of = classes_[slot_of(tensor_class)];
  ++of.stores;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!of.tried[i].known || of.stores - of.tried[i].when >= tried_again_after) return candidates[i];
  const double link_ns = link_ns_ != 0 ? link_ns_ : usual_link_ns;
  const double way_ns = pressed ? std::max(link_ns, drive_ns_) : link_ns;
  Codec best = Codec::raw;
  double best_ns = 2 * way_ns;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (const double ns = cost(of.tried[i], way_ns); ns < best_ns) {
      best = candidates[i];
      best_ns = ns;
    }
  return best;
}

// What a class's frames are like is taken from the last one: neighbours in time are alike.
void CodecChoice::compressed(std::uint64_t tensor_class, Codec codec, std::uint64_t content_bytes,
                             std::uint64_t frame_bytes, std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  Class& of = classes_[slot_of(tensor_class)];
  Tried* tried = find(of, codec);
  if (tried == nullptr) return;
  tried->known = true;
  tried->when = of.stores;
  tried->fraction = share(frame_bytes, content_bytes);
  learn(tried->compress_ns, share(ns, content_bytes));
}

void CodecChoice::decompressed(std::uint64_t tensor_class, Codec codec, std::uint64_t content_bytes,
                               std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  if (Tried* tried = find(classes_[slot_of(tensor_class)], codec); tried != nullptr)
    learn(tried->decompress_ns, share(ns, content_bytes));
}

void CodecChoice::crossed_link(std::uint64_t bytes, std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  learn(link_ns_, share(ns, bytes));
}

void CodecChoice::crossed_drive(std::uint64_t bytes, std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  learn(drive_ns_, share(ns, bytes));
}

}  // namespace terrace::liballoc::offload
