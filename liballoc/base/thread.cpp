#include "liballoc/base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstddef>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t stack_bytes = std::size_t{256} * 1024;

}  // namespace

bool start_thread(void* (*body)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void name_thread(const char* name) { syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0); }

}  // namespace terrace::liballoc
