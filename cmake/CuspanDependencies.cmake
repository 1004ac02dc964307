# Every library that cuspan builds with, found once, under one target name each.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# Formatting and logging. Header-only, so that the client library, which lives
# inside a user's program, drags no shared library in with it.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# cuspan::warnings carries the warning flags and the sanitizer of a preset.
add_library(cuspan_warnings INTERFACE)
add_library(cuspan::warnings ALIAS cuspan_warnings)
target_compile_options(cuspan_warnings INTERFACE -Wall -Wextra)
if(CUSPAN_WERROR)
  target_compile_options(cuspan_warnings INTERFACE -Werror)
endif()
if(CUSPAN_SANITIZE)
  target_compile_options(cuspan_warnings INTERFACE -fsanitize=${CUSPAN_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(cuspan_warnings INTERFACE -fsanitize=${CUSPAN_SANITIZE})
  if(CUSPAN_SANITIZE MATCHES undefined)
    # Else it prints what it finds, and the test passes. An enum of CUDA's may be any int that a
    # program in C gives: the driver says which is none of its values.
    target_compile_options(cuspan_warnings INTERFACE -fno-sanitize-recover=undefined -fno-sanitize=enum)
  endif()
  # It does not follow fences, which here only order a publication before a look at a sleeper.
  if(CUSPAN_SANITIZE STREQUAL "thread")
    target_compile_options(cuspan_warnings INTERFACE -Wno-tsan)
  endif()
endif()
# Includes are written from the root of the repository, so that each names its layer.
target_include_directories(cuspan_warnings INTERFACE ${CMAKE_SOURCE_DIR})
