# What the agent's thread runs must not reach libc's heap, its locks, stdio or the resolver: a thread of the
# program may hold any of them while it waits for the agent (fork holds malloc's lock).
#
# An allow-list: a new undefined symbol fails until somebody has looked at it. Run as
#   cmake -DNM=nm -DFILES=2 -DOBJECTS=a.o;b.o -P agent_symbols.cmake
cmake_minimum_required(VERSION 3.25)
set(ours "terrace::|vtable for |typeinfo |_GLOBAL_OFFSET_TABLE_|__cpu_model|__stack_chk_fail|__dso_handle")
# Plain computing, of libc and of the compiler (libgcc).
set(memory "__popcountdi2|mem(cpy|move|set|cmp|chr)|str(len|cmp|ncmp|chr|rchr|str|nlen)|__mem(cpy|move|set)_chk|__strncpy_chk|strncpy")
# Thin wrappers: one system call each, or none (the clock, who the thread is), and no lock.
set(calls "syscall|__errno_location|clock_gettime|pthread_self|close|read|write|pread|pwrite|preadv|pwritev|open|openat|fcntl|ioctl")
string(APPEND calls "|fstat|statx|fstatvfs|statvfs|mmap|munmap|madvise|mprotect|poll|ppoll|socket|connect|send|sendmsg|recv|recvmsg")
string(APPEND calls "|getsockopt|setsockopt|epoll_create1|epoll_ctl|timerfd_create|timerfd_settime|eventfd|fallocate|ftruncate")
string(APPEND calls "|unlink|getpid|getrlimit|sysconf|memfd_create|readlink|pipe2|dup2|dup3|prctl|kill|waitid|waitpid|clone")
string(APPEND calls "|sigfillset|sigemptyset|sigaction|sigprocmask|execve|_exit|setsid|environ|__environ|umask|flock|fsync|access|wait4|getrandom")
# Before the thread runs, or on the way to giving up.
set(once "getenv|pthread_create|pthread_attr_[a-z]+|pthread_sigmask|abort|__assert_fail|program_invocation_short_name|__cxa_pure_virtual")
set(uring "io_uring_[a-z_]+|__io_uring_[a-z_]+")
# By file: what is referred to and never called there, or only while the pool file is made, before anybody waits.
set(excepted
    "nvme_tier.cpp.o: operator delete(void*, unsigned long)"  # the deleting destructor of a class with a vtable
    "meter_adaptor.cpp.o: operator delete(void*, unsigned long)"
    "striped_tier.cpp.o: operator delete(void*, unsigned long)"
    "nvm_tier.cpp.o: operator delete(void*, unsigned long)"
    "pool_file.cpp.o: snprintf"                               # a file name, where O_TMPFILE is not to be had
)
set(allowed "^(${ours}|(${memory}|${calls}|${once}|${uring})$)")
set(forbidden "malloc calloc realloc free operator.new operator.delete pthread_mutex_lock printf fprintf getaddrinfo")

# The list itself must not let in what this is about.
foreach(name ${forbidden})
  if(name MATCHES "${allowed}")
    message(FATAL_ERROR "the allow-list lets ${name} through")
  endif()
endforeach()

# A file that was renamed must not drop out of the check.
list(LENGTH OBJECTS files)
if(NOT files EQUAL FILES)
  message(FATAL_ERROR "${files} object files where ${FILES} were named: ${OBJECTS}")
endif()
set(bad "")
set(seen 0)
foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} --undefined-only --demangle --format=posix ${object} OUTPUT_VARIABLE text RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "nm cannot read ${object}")
  endif()
  string(REPLACE "\n" ";" lines "${text}")
  foreach(line ${lines})
    if(NOT line MATCHES "^(.*) [Uw] *$")
      continue()
    endif()
    set(symbol "${CMAKE_MATCH_1}")
    math(EXPR seen "${seen} + 1")
    get_filename_component(file ${object} NAME)
    if(NOT symbol MATCHES "${allowed}" AND NOT "${file}: ${symbol}" IN_LIST excepted)
      list(APPEND bad "${file}: ${symbol}")
    endif()
  endforeach()
endforeach()
if(seen LESS 50)
  message(FATAL_ERROR "only ${seen} undefined symbols seen: the wrong files were listed")
endif()
if(bad)
  string(REPLACE ";" "\n  " bad "${bad}")
  message(FATAL_ERROR "not allowed on the agent's thread:\n  ${bad}")
endif()
