# Finds all libraries used by cuspan; each has one target name.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# Formatting and logging. Header-only: the client library is inside a user's program and must not
# depend on additional shared libraries.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# cuspan::warnings: the warning flags, and the sanitizer of a preset.
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
    # Makes findings fatal; otherwise they are only printed and the test passes. Enum checks are
    # off: a C program may pass any int for one of CUDA's enums. The driver rejects invalid values.
    target_compile_options(cuspan_warnings INTERFACE -fno-sanitize-recover=undefined -fno-sanitize=enum)
  endif()
  # ThreadSanitizer does not support fences. Here they only order publishing data before reading a
  # sleeper's flag.
  if(CUSPAN_SANITIZE STREQUAL "thread")
    target_compile_options(cuspan_warnings INTERFACE -Wno-tsan)
  endif()
endif()
# Include paths are relative to the root of the repository, so each shows its layer.
target_include_directories(cuspan_warnings INTERFACE ${CMAKE_SOURCE_DIR})
