# The headers of the language and of other libraries, parsed once for many sources, which takes a
# third off the time that the build needs. Of our own only the client's session is among them, for the
# layers above the client, whose sources all need it. That each file names what it uses all the same
# is seen by a build without.
option(CUSPAN_PRECOMPILED "Parse the headers of other libraries once for many sources" ON)

set(cuspan_language_headers
  <algorithm> <array> <atomic> <bit> <chrono> <condition_variable> <cstddef> <cstdint> <cstring> <deque>
  <functional> <map> <memory> <mutex> <optional> <set> <shared_mutex> <span> <string> <string_view> <thread>
  <tuple> <unordered_map> <utility> <variant> <vector>)

# cuspan_precompile(TARGET [WITH header…] [LIKE other]): TARGET's sources find those headers, and
# the additional ones, parsed already: in a file of its own, or in that of a target that was given
# the same headers and compiles with the same options.
function(cuspan_precompile target)
  cmake_parse_arguments(arg "" "LIKE" "WITH" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  # A target with sources in C as well would need them for that language, too.
  if(NOT CUSPAN_PRECOMPILED OR sources MATCHES "\\.c(;|$)")
    return()
  endif()
  if(arg_LIKE)
    target_precompile_headers(${target} REUSE_FROM ${arg_LIKE})
  else()
    target_precompile_headers(${target} PRIVATE ${cuspan_language_headers} ${arg_WITH})
  endif()
endfunction()
