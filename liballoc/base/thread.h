// Starts a thread of the library's own: detached, with a small stack, and with every signal blocked from its
// birth, as all signals are the program's business.
#pragma once

namespace terrace::liballoc {

// False: the thread could not be started. `body` never returns.
bool start_thread(void* (*body)(void*), void* argument);
// Of the calling thread, as ps and debuggers show it.
void name_thread(const char* name);

}  // namespace terrace::liballoc
