# Precompiled headers of the standard library and of other libraries: they reduce the build time by
# a third. The only header of cuspan is the client's session, for the layers above the client: all
# their sources need it. A build without this option checks that each file includes the headers it
# uses.
option(CUSPAN_PRECOMPILED "Parse the headers of other libraries once for many sources" ON)

set(cuspan_language_headers
  <algorithm> <array> <atomic> <bit> <chrono> <condition_variable> <cstddef> <cstdint> <cstring> <deque>
  <functional> <map> <memory> <mutex> <optional> <set> <shared_mutex> <span> <string> <string_view> <thread>
  <tuple> <unordered_map> <utility> <variant> <vector>)

# cuspan_precompile(TARGET [WITH header…] [LIKE other]): precompiles those headers, and the
# additional ones, for TARGET. LIKE reuses the file of another target with the same headers and the
# same compiler options.
function(cuspan_precompile target)
  cmake_parse_arguments(arg "" "LIKE" "WITH" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  # A target with additional C sources would need them for that language, too.
  if(NOT CUSPAN_PRECOMPILED OR sources MATCHES "\\.c(;|$)")
    return()
  endif()
  if(arg_LIKE)
    target_precompile_headers(${target} REUSE_FROM ${arg_LIKE})
  else()
    target_precompile_headers(${target} PRIVATE ${cuspan_language_headers} ${arg_WITH})
  endif()
endfunction()
