// The descriptors that the library keeps open in the program's table, so that the program does not close
// them.
//
// Programs close descriptors that they did not open: daemons do, and children before exec. With the last
// descriptor of a userfaultfd its registrations go, and every evicted page reads as zeroes from then on; the
// number of a pipe is soon the program's, and what is written to it lands in its file. So the numbers are
// noted here, high ones (tiers/high_descriptor.h), and the preload library's close() and its kin leave them
// alone (preload/descriptors.cpp). A bare system call is not seen: for that each number is noted with device
// and inode, which tell whether it is still the same file. (Since Linux 5.12 userfaultfds and rings have
// inodes of their own, pipes always had; eventfds share one, which is why none is used, and epoll sets, of
// which a striped pool has one: docs/decisions/022-striping.md.)
//
// One table without a lock, because close() is called in signal handlers and in children that share memory
// with their parent; they only read it. A number is noted after its identity and forgotten before it is
// closed.
#pragma once

#include <atomic>
#include <climits>

namespace terrace::liballoc {

// What happens when the program takes a descriptor away in spite of all: the data behind it is lost, or its
// owner notices and opens another.
enum class Descriptor { vital, replaceable };

// Moves a descriptor to a high number and notes it. Its number from now on, -1 for -1.
int keep_descriptor(int fd, Descriptor kind = Descriptor::vital);
// Notes it where it is.
void note_descriptor(int fd, Descriptor kind = Descriptor::vital);
// Forgets it, and closes it if it is still ours. Does nothing for -1.
void close_kept(int fd);

// Forgets it and leaves it open: from now on the program may close it.
void forget_descriptor(int fd);
void forget_all_descriptors();

// Whether the number is noted and still means the file that it was noted for. Where the system call that
// tells files apart is refused (a sandbox), every open file is taken for that one.
bool is_intact(int fd);
// A vital descriptor that is ours no longer, or -1.
int first_lost_descriptor();

// For the wrappers of close(): async-signal-safe, and nothing is written.
extern std::atomic<int> lowest_kept;
inline bool is_kept(int fd) { return fd >= lowest_kept.load(std::memory_order_relaxed) && is_intact(fd); }
// The lowest kept number from `from` on, INT_MAX when there is none.
int next_kept(int from);

}  // namespace terrace::liballoc
