# CUSPAN_SOURCE_DATE: date of the last change of the sources, in seconds since 1970, for dated
# files. SOURCE_DATE_EPOCH (set by package builders), or the date of the last commit, or of
# CMakeLists.txt.
set(CUSPAN_SOURCE_DATE "$ENV{SOURCE_DATE_EPOCH}")
if(NOT CUSPAN_SOURCE_DATE)
  execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} log -1 --format=%ct -- . RESULT_VARIABLE result
                  OUTPUT_VARIABLE CUSPAN_SOURCE_DATE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT CUSPAN_SOURCE_DATE MATCHES "^[0-9]+$")
  file(TIMESTAMP ${CMAKE_SOURCE_DIR}/CMakeLists.txt CUSPAN_SOURCE_DATE "%s" UTC)
endif()
