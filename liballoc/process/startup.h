// Brings the heap up once, whoever asks first: a malloc before main, a constructor, or terrace_alloc().
#pragma once

namespace terrace::liballoc {

// True when the heap is usable. Safe from any thread; the thread that is inside the initialisation gets false
// (it asks because libc allocates on its behalf). False for good when disabled or without address space.
bool ensure_started();
// True while the calling thread is inside the initialisation.
bool starting_in_this_thread();

}  // namespace terrace::liballoc
