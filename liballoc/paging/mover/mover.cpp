#include "liballoc/paging/mover/mover.h"

#include <cerrno>

namespace terrace::liballoc {

int Mover::open(MoverKind wanted, int device_fd) {
  if (const int error = userfault_.open(device_fd); error != 0) return error;
  const bool can_move = userfault_.can_move();
  const bool is_refused = wanted == MoverKind::move && !can_move;
  if (const int error = is_refused ? ENOTSUP : nursery_.open(); error != 0) {
    close();
    return error;
  }
  kind_ = wanted != MoverKind::automatic ? wanted : can_move ? MoverKind::move : MoverKind::mremap;
  pages_.open();
  poison_.open();
  return 0;
}

void Mover::close() {
  userfault_.close();
  pages_.close();
  poison_.close();
  watching_.forget();
  nursery_.forget();
  kind_ = MoverKind::automatic;
}

const char* Mover::name() const {
  switch (kind_) {
    case MoverKind::move:
      return "move";
    case MoverKind::mremap:
      return "mremap";
    case MoverKind::automatic:
      break;
  }
  return "none";
}

// nullptr: it is not open. Without a userfaultfd nothing may leave its place.
RunMover* Mover::way() {
  switch (kind_) {
    case MoverKind::move:
      return &move_;
    case MoverKind::mremap:
      return &remap_;
    case MoverKind::automatic:
      break;
  }
  return nullptr;
}

int Mover::watch_again(std::byte* run) { return watching_.watch_again(run, run_bytes); }

int Mover::adopt_frames(std::byte* address, std::size_t bytes) {
  watching_.know_frames(address, bytes);
  return kind_ == MoverKind::move ? userfault_.watch(address, bytes) : 0;
}

// Both ends of a way out.
bool Mover::is_watched(std::byte* run, std::byte* frame) {
  if (!watching_.some_are_not()) return true;
  return watch_again(run) == 0 && adopt_frames(frame, run_bytes) == 0;
}

int Mover::take(std::byte* run, std::byte* frame, bool may_have_holes) {
  if (!is_watched(run, frame)) return EBUSY;
  return way() != nullptr ? way()->take(run, frame, may_have_holes) : ENOTSUP;
}

int Mover::take_pages(std::byte* run, std::byte* frame, const PageSet& pages, PageSet* taken) {
  if (!is_watched(run, frame)) return EBUSY;
  if (!pages_.is_open() || way() == nullptr) return ENOTSUP;
  if (const int error = way()->take_pages(run, frame, pages); error != 0) return error;
  *taken = pages;
  PageSet there;
  if (pages_.present(frame, &there)) *taken &= there;
  return 0;
}

int Mover::put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) {
  *frame_keeps_memory = false;
  return way() != nullptr ? way()->put(frame, run, frame_keeps_memory) : ENOTSUP;
}

int Mover::put_pages(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t* done) {
  *done = 0;
  return userfault_.copy(from, to, done, bytes);
}

int Mover::populate(std::byte* frame) {
  if (way() == nullptr) return ENOTSUP;
  if (const int error = nursery_.populate(); error != 0) return error;
  return way()->take_fresh(nursery_.run(), frame);
}

int Mover::pass_on(std::byte* from, std::byte* to) {
  return kind_ == MoverKind::move ? move_.take_fresh(from, to) : ENOTSUP;
}

int Mover::poison(std::byte* run) {
  if (const int error = poison_.put_on(run); error != 0) return error;
  wake(run, run_bytes);
  return 0;
}

int Mover::heal(std::byte* run) {
  const int error = Poison::take_off(run);
  return error != 0 ? error : watch(run, run_bytes);
}

}  // namespace terrace::liballoc
