# Code running before the C library is set up may use only its own symbols and those of the dynamic
# loader.
string(REPLACE ":" ";" OBJECTS "${OBJECTS}")
execute_process(COMMAND ${NM} --demangle ${OBJECTS} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
if(symbols MATCHES "_GLOBAL__sub_I_[^\n]+")
  message(SEND_ERROR "a static constructor, which would run after what needs it: ${CMAKE_MATCH_0}")
endif()
string(REGEX MATCHALL " U [^\n]+" undefined "${symbols}")
list(LENGTH undefined count)
if(count EQUAL 0)
  message(FATAL_ERROR "no undefined symbols at all: the list of objects is wrong: ${OBJECTS}")
endif()
foreach(line IN LISTS undefined)
  string(SUBSTRING "${line}" 3 -1 symbol)
  if(NOT symbol MATCHES
     "^(cuspan::load::.*|cuspan_runtime_exports(_count)?|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|_r_debug|environ|getauxval)$")
    message(SEND_ERROR "code that runs before the C library is set up uses ${symbol}")
  endif()
endforeach()
