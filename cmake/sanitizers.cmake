# Sanitizers apply to the whole build: mixing instrumented and plain code hides what they look for.
if(TERRACE_SANITIZE)
  add_compile_options(-fsanitize=${TERRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TERRACE_SANITIZE})
endif()
