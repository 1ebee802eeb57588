# The tiers run inside malloc, and while another thread may hold its lock across a fork: their archive must not
# refer to the heap, to exceptions or to streams. Run as: cmake -DNM=nm -DARCHIVE=libterrace_tiers.a -P this.
execute_process(COMMAND ${NM} --undefined-only --demangle ${ARCHIVE}
                OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
if(failed OR NOT symbols MATCHES "mmap")
  message(FATAL_ERROR "nm did not list the symbols of ${ARCHIVE}")
endif()
foreach(bad "malloc" "calloc" "realloc" "free" "operator new" "__cxa_throw" "__cxa_guard" "std::.*ostream" "pthread_mutex")
  if(symbols MATCHES " U ${bad}")
    message(FATAL_ERROR "${ARCHIVE} refers to ${bad}, which the tiers must do without")
  endif()
endforeach()
