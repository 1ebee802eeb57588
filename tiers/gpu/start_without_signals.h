// Starts a thread that takes none of the program's signals: they, and their handlers, belong to threads of
// the program. One of ours would run a handler while it holds a lock that the handler's call needs, and a
// program that blocks a signal in every thread that it knows, to wait for it, would die of it.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace terrace::tiers::gpu {

// Throws std::system_error where there is no thread to be had.
template <class Function>
std::thread start_without_signals(Function function) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
    const sigset_t& mask;
  } const restore{before};
  return std::thread(std::move(function));
}

}  // namespace terrace::tiers::gpu
