// pthread_atfork handlers: see fork_handlers.cpp.
#pragma once

namespace terrace::liballoc {

// Once, before the first lock of ours exists.
void register_fork_handlers();

// True between a fork and the end of the child's handler: the next allocator may still hold locks of threads
// that do not exist here, so small requests are served from the bootstrap arena.
bool in_fork_child_handler();

// Called with true when the child's handler begins and false when it ends.
void set_child_handler_hook(void (*hook)(bool begins));

}  // namespace terrace::liballoc
